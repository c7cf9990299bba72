import Encoding
import Foundation

/// The last checkpoint of each origin that was signed on this machine: a folder with a file for each.
///
/// It lies beside the key, outside of the database, so that it does not go back in time with it.
package struct CheckpointRecord: Sendable {
    package let folder: String

    package init(folder: String) {
        self.folder = folder
    }

    private func path(of origin: CheckpointOrigin) -> String {
        // An origin has slashes, and no plus signs.
        "\(folder)/\(origin.text.replacing("/", with: "+"))"
    }

    /// - Throws: ``TreeProblem/record(_:)`` if there is a file that cannot be read, or is no checkpoint.
    func last(of origin: CheckpointOrigin) throws(TreeError) -> SignedCheckpoint? {
        let path = path(of: origin)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw .problem(.record(path))
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard let bytes = try? handle.readToEnd(),
            let checkpoint = SignedCheckpoint(encoded: String(decoding: bytes, as: UTF8.self)),
            checkpoint.checkpoint.origin == origin
        else { throw .problem(.record(path)) }
        return checkpoint
    }

    /// Replaces the file of the checkpoint's origin. Durable when this returns.
    func keep(_ signed: SignedCheckpoint) throws(TreeError) {
        let path = path(of: signed.checkpoint.origin)
        let draft = "\(path).\(UUID().uuidString)"
        if mkdir(folder, 0o700) != 0, errno != EEXIST { throw .problem(.record(folder)) }
        giveAway(folder)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .problem(.record(path)) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        defer { unlink(draft) }
        do {
            try handle.write(contentsOf: Data(signed.note.encoded.utf8))
            try handle.synchronize()
        } catch {
            throw .problem(.record(path))
        }
        giveAway(draft)
        guard rename(draft, path) == 0 else { throw .problem(.record(path)) }
        let parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard parent >= 0 else { throw .problem(.record(path)) }
        defer { close(parent) }
        guard fsync(parent) == 0 else { throw .problem(.record(path)) }
    }

    /// A command that root runs must not lock out the server, which runs as the user that owns the folder of the key.
    private func giveAway(_ path: String) {
        var owner = stat()
        guard geteuid() == 0, stat((folder as NSString).deletingLastPathComponent, &owner) == 0 else { return }
        _ = chown(path, owner.st_uid, owner.st_gid)
    }
}
