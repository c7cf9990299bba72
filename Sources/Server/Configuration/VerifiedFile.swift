import Encoding
import EventLog
import Foundation
import Subscriptions

/// The file in which `subledger verify` keeps up to where it has verified each stream: a line of JSON for each, signed with
/// the head key.
///
/// It is a file, since a standby takes no writes, and what the database's superuser can change proves nothing against them.
package struct VerifiedFile {
    private let path: String
    private let key: HeadKey
    private let roots: [UInt8]
    private let release: String
    /// What the file has, or will have.
    private var heads: [StreamKey: VerifiedHead] = [:]
    private var writtenAt: ContinuousClock.Instant

    /// What is lost if a run is killed.
    private static let pause = Duration.seconds(5)

    /// Reads the file, unless there is none, and writes it, so that a run does not end with a file that cannot be written.
    ///
    /// - Parameters:
    ///   - roots: SHA-256 of the root certificates of this run.
    ///   - isNew: Whether to forget what the file has.
    /// - Throws: ``SettingError`` if it cannot be read or written, or another key signed it.
    package init(
        path: String, key: HeadKey, roots: [UInt8], release: String, isNew: Bool
    ) throws(SettingError) {
        (self.path, self.key, self.roots, self.release) = (path, key, roots, release)
        writtenAt = .now
        if !isNew, FileManager.default.fileExists(atPath: path) {
            guard let bytes = InputFile.read(path) else {
                throw SettingError(description: "\(path): \(InputFile.unreadable)")
            }
            guard let read = VerifiedHead.heads(inLines: bytes) else {
                throw SettingError(description: "\(path): expected a file that `subledger verify --progress` wrote")
            }
            guard read.allSatisfy({ $0.isSigned(by: key.publicKey) }) else {
                throw SettingError(
                    description: "\(path): the head key did not sign it, so it proves nothing: begin anew with --all")
            }
            for head in read { heads[head.place.head.stream] = head }
        }
        try write()
    }

    /// Where each stream was verified up to with the root certificates of this run.
    package var places: [StreamKey: VerifiedPlace] {
        heads.filter { $0.value.roots == roots }.mapValues(\.place)
    }

    /// Notes a place up to which nothing is wrong, and writes the file if that is some seconds ago.
    package mutating func note(_ place: VerifiedPlace, at time: Instant) throws {
        heads[place.head.stream] = try VerifiedHead(place, roots: roots, release: release, at: time, signedBy: key)
        if ContinuousClock.now - writtenAt >= Self.pause { try write() }
    }

    /// Replaces the file. Durable when this returns.
    package mutating func write() throws(SettingError) {
        writtenAt = .now
        var text: [UInt8] = []
        for head in heads.values.sorted(by: { $0.place.head.stream.name < $1.place.head.stream.name }) {
            var writer = JSONWriter()
            head.write(to: &writer)
            text += writer.bytes + [UInt8(ascii: "\n")]
        }
        let draft = "\(path).\(UUID().uuidString)"
        defer { unlink(draft) }
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            throw SettingError(description: "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: Data(text))
            try handle.synchronize()
        } catch {
            throw SettingError(description: "\(path) cannot be written: \(error)")
        }
        guard rename(draft, path) == 0 else {
            throw SettingError(description: "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
    }
}

extension StreamKey {
    fileprivate var name: String { "\(app) \(environment.rawValue)" }
}
