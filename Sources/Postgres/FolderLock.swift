import Foundation

/// Keeps a second process off a folder for as long as it lives, however it ends.
final class FolderLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock and writes our process id into it, for the message that the next one gets.
    ///
    /// - Throws: ``EmbeddedServerError`` when another process, or this one, has the folder already.
    init(path: String, folder: String) throws(EmbeddedServerError) {
        let descriptor = Foundation.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw EmbeddedServerError("cannot create \(path): \(errnoText()); check the rights of the folder")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let owner = (try? String(contentsOfFile: path, encoding: .utf8))?.split(separator: "\n").first ?? "unknown"
            close(descriptor)
            throw EmbeddedServerError(
                "the folder \(folder) is in use by process \(owner); stop it, or choose another folder"
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
