import Foundation

/// Keeps a second process off a folder for as long as it lives, however it ends.
final class FolderLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock and writes our process id into it, for the message that the next one gets.
    ///
    /// - Throws: ``EmbeddedServerError`` when another process, or this one, has the folder already.
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

/// The last error of the C library, in words.
func errnoText() -> String {
    String(cString: strerror(errno))
}

/// Waits even in a cancelled task, so that shutting down keeps its pace.
func pause(milliseconds: Int) async {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
            continuation.resume()
        }
    }
}
