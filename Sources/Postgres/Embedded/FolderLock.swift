import Foundation

/// An exclusive lock on a data folder. The kernel releases it when the process ends for any reason.
final class FolderLock: Sendable {
    private let descriptor: Int32

    /// Acquires the lock and writes the own process id into its file, for the error message of a second process.
    ///
    /// - Throws: ``EmbeddedServerError`` if another process, or this one, already has the lock.
    init(_ folder: ServerFolder) throws(EmbeddedServerError) {
        let descriptor = try folder.openLock()
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            var bytes = [UInt8](repeating: 0, count: 32)
            let count = max(0, pread(descriptor, &bytes, bytes.count, 0))
            let owner = String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: "\n").first ?? "unknown"
            close(descriptor)
            throw EmbeddedServerError(
                "the folder \(folder.path) is in use by process \(owner); stop it, or choose another folder"
            )
        }
        let text = "\(getpid())\n"
        ftruncate(descriptor, 0)
        _ = text.withCString { write(descriptor, $0, text.utf8.count) }
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }
}

/// The message of the C library's last error.
func errnoText() -> String {
    String(cString: strerror(errno))
}

/// Waits even in a cancelled task, so that a shutdown does not poll without pause.
func pause(milliseconds: Int) async {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
            continuation.resume()
        }
    }
}
