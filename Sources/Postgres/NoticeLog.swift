import CLibpq

/// What the server remarked beside its answers. Nothing is printed; a commit asks whether it was warned.
final class NoticeLog {
    private(set) var warningCount = 0
    private(set) var lastWarningSQLSTATE: String?
    /// The server said good-bye while nothing was asked of it.
    private(set) var sessionEnded = false

    /// Makes the connection report to this log, which must outlive it.
    func attach(to connection: OpaquePointer) {
        PQsetNoticeReceiver(
            connection,
            { log, result in
                guard let log, let result else { return }
                Unmanaged<NoticeLog>.fromOpaque(log).takeUnretainedValue().record(result)
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    private func record(_ result: OpaquePointer) {
        let report = ServerReport(result)
        if report.endsSession { sessionEnded = true }
        guard report.severity == "WARNING", !report.isAboutNotifyQueue else { return }
        warningCount += 1
        lastWarningSQLSTATE = report.sqlstate
    }
}
