import CLibpq

/// Records the server's notices of one connection. Nothing is printed; a commit checks whether it caused a warning.
final class NoticeLog {
    private(set) var warningCount = 0
    private(set) var lastWarningSQLSTATE: String?
    /// True once the server ended the session while no statement was running.
    private(set) var sessionEnded = false

    /// Sends the connection's notices to this log, which must outlive the connection.
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
        let report = ErrorFields(result)
        if report.endsSession { sessionEnded = true }
        guard report.severity == "WARNING", !report.isAboutNotifyQueue else { return }
        warningCount += 1
        lastWarningSQLSTATE = report.sqlstate
    }
}
