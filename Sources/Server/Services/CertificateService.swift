import HTTPServer
import ServiceLifecycle
import UnixSignals

/// Reloads the listeners' certificates without a restart: when the files change, and on SIGHUP.
struct CertificateService: Service {
    let identities: [TLSIdentity]

    /// Certificates are renewed weeks before they expire, so a delay of seconds is acceptable.
    private static let interval = Duration.seconds(2)

    func run() async throws {
        // Without certificates, SIGHUP is not trapped and ends the process as usual.
        guard !identities.isEmpty else {
            try? await gracefulShutdown()
            return
        }
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    for await _ in await UnixSignalsSequence(trapping: .sighup) { reload(isForced: true) }
                }
                group.addTask {
                    while !Task.isCancelled {
                        try? await Task.sleep(for: Self.interval)
                        if !Task.isCancelled { reload(isForced: false) }
                    }
                }
                await group.waitForAll()
            }
        }
    }

    private func reload(isForced: Bool) {
        for identity in identities { identity.reload(isForced: isForced) }
    }
}
