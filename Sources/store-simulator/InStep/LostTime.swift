import Encoding

/// The time of which a database lacks everything after it was restored: after the backup, until the restore.
struct LostTime: Sendable, Hashable {
    /// When the backup was made.
    let start: Instant
    /// When it was restored.
    let end: Instant

    var range: Range<Instant> { start..<end }

    func contains(_ instant: Instant) -> Bool { start < instant && instant <= end }
}
