import Foundation

/// The identity of the file at a path, to detect that another file has replaced it. Moving a file away and back does
/// not change it.
struct FileIdentity: Sendable, Equatable {
    private let device: UInt64
    private let file: UInt64
    private let size: Int64
    private let modified: Int64

    /// Nil if there is no such file.
    init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        device = UInt64(status.st_dev)
        file = UInt64(status.st_ino)
        size = Int64(status.st_size)
        modified = Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
    }
}

extension EmbeddedServer {
    /// An upgrade replaces the server's files one after another. The new binary must have existed for this long, so
    /// that its libraries are installed too.
    static let replacementTime = Duration.seconds(3)

    /// Whether the server's binary was replaced by one that can run the same cluster.
    ///
    /// New backends of the old server would load libraries of the new release, which may be incompatible. While there
    /// is no binary, the old server continues to run.
    func isReplaced(now: ContinuousClock.Instant) -> Bool {
        guard let running, let found = FileIdentity(binaries.postgres), found != running, found != unusable else {
            replacement = nil
            return false
        }
        guard let replacement, replacement.binary == found else {
            replacement = (found, now)
            return false
        }
        guard now - replacement.since >= Self.replacementTime else { return false }
        guard ServerBinaries.version(of: binaries.postgres) == binaries.version else {
            unusable = found
            logger.error(
                "PostgreSQL was replaced on disk by another major version, which cannot run the embedded database",
                metadata: ["file": "\(binaries.postgres)", "db.version": "\(binaries.version)"])
            return false
        }
        self.replacement = nil
        return true
    }
}
