import Foundation

/// An open folder that only root and its owner can change.
///
/// Files in it are opened through its descriptor, never through a symbolic or hard link, so a name in the folder cannot
/// lead anywhere else.
final class TrustedFolder: Sendable {
    /// The kernel's path of the folder: absolute and without symbolic links.
    let path: String
    /// Whether this call created it.
    let isNew: Bool
    /// The account that owns its files; nil for the current user.
    private let account: ServerAccount?
    private let descriptor: Int32

    /// Opens the folder, creating it if necessary.
    ///
    /// - Throws: ``EmbeddedServerError`` if the folder belongs to another user, others can write to it, or another user
    ///   could replace it or a folder above it.
    init(path: String, account: ServerAccount?) throws(EmbeddedServerError) {
        let owners: Set<uid_t> = [0, account?.user ?? geteuid()]
        try Self.checkAbove(path, owners: owners)
        let isNew = access(path, F_OK) != 0
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw EmbeddedServerError("cannot create the folder \(path): \(errnoText()); check the rights above it")
        }
        guard let resolved = realpath(path, nil) else {
            throw EmbeddedServerError("cannot open the folder \(path): \(errnoText())")
        }
        let real = String(cString: resolved)
        free(resolved)
        try Self.checkAbove(real, owners: owners)
        let descriptor = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw EmbeddedServerError("cannot open the folder \(real): \(errnoText())") }
        self.path = real
        self.isNew = isNew
        self.account = account
        self.descriptor = descriptor
        try checkOwner(owners)
        if isNew { try change(descriptor, mode: 0o700, name: nil) }
    }

    deinit {
        close(descriptor)
    }

    private func checkOwner(_ owners: Set<uid_t>) throws(EmbeddedServerError) {
        let status = try status(of: descriptor, name: nil)
        guard owners.contains(status.st_uid) else {
            throw EmbeddedServerError(
                "the folder \(path) belongs to user \(ServerAccount.name(of: status.st_uid)): expected "
                    + "\(owners.sorted().map(ServerAccount.name).joined(separator: " or "))")
        }
        guard isNew || status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw EmbeddedServerError("other users can write to the folder \(path): run chmod go-w, or choose another")
        }
    }

    /// Rejects the folder if another user could replace it in a folder above it. In a folder with the sticky bit, such
    /// as `/tmp`, other users can add names but cannot replace this one.
    private static func checkAbove(_ path: String, owners: Set<uid_t>) throws(EmbeddedServerError) {
        var name = path
        while name != "/", !name.isEmpty {
            var status = stat()
            if lstat(name, &status) == 0 {
                let isLink = status.st_mode & S_IFMT == S_IFLNK
                let isOpen = status.st_mode & S_IWOTH != 0 && status.st_mode & S_ISVTX == 0
                // The folder itself is checked through its descriptor.
                guard isLink || name != path else {
                    name = (name as NSString).deletingLastPathComponent
                    continue
                }
                guard owners.contains(status.st_uid) else {
                    throw EmbeddedServerError(
                        "the data folder \(path) is not safe: \(name) belongs to user "
                            + "\(ServerAccount.name(of: status.st_uid)), who could replace it; choose another folder")
                }
                guard isLink || !isOpen else {
                    throw EmbeddedServerError(
                        "the data folder \(path) is not safe: all users can write to \(name), so they could replace "
                            + "it; choose another folder")
                }
            }
            name = (name as NSString).deletingLastPathComponent
        }
    }

    /// Whether the folder already belongs to the server's account.
    var isAccounts: Bool {
        get throws(EmbeddedServerError) {
            try status(of: descriptor, name: nil).st_uid == account?.user ?? geteuid()
        }
    }

    /// Changes the owner to the server's account. Then only this account and root can enter the folder.
    func giveToAccount() throws(EmbeddedServerError) {
        try change(descriptor, mode: 0o700, name: nil)
        try own(descriptor, name: nil)
    }

    /// The names of the files and folders in this folder.
    func names() throws(EmbeddedServerError) -> [String] {
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
            throw EmbeddedServerError("cannot list the folder \(path)")
        }
        return names
    }

    /// The owner of a subfolder; nil if there is none with this name.
    func owner(ofFolder name: String) throws(EmbeddedServerError) -> uid_t? {
        var status = stat()
        guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
            if errno == ENOENT { return nil }
            throw EmbeddedServerError("cannot open \(path)/\(name): \(errnoText())")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw EmbeddedServerError("\(path)/\(name) is a file or a symbolic link: expected a folder")
        }
        return status.st_uid
    }

    /// Creates a subfolder that only the server's account can access.
    func makeFolder(_ name: String) throws(EmbeddedServerError) {
        guard mkdirat(descriptor, name, 0o700) == 0 || errno == EEXIST else {
            throw EmbeddedServerError("cannot create \(path)/\(name): \(errnoText())")
        }
        _ = try owner(ofFolder: name)
        let folder = openat(descriptor, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard folder >= 0 else { throw EmbeddedServerError("cannot open \(path)/\(name): \(errnoText())") }
        defer { close(folder) }
        try change(folder, mode: 0o700, name: name)
        try own(folder, name: name)
    }

    /// Opens a file in the folder, creating it if necessary; only the server's account can access it.
    ///
    /// - Returns: A descriptor, which the caller closes.
    func openFile(_ name: String, _ flags: Int32) throws(EmbeddedServerError) -> Int32 {
        let file = openat(descriptor, name, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
        guard file >= 0 else {
            let problem = errno == ELOOP ? "it is a symbolic link" : errnoText()
            throw EmbeddedServerError("cannot write \(path)/\(name): \(problem)")
        }
        do throws(EmbeddedServerError) {
            let status = try status(of: file, name: name)
            guard status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
                throw EmbeddedServerError("cannot write \(path)/\(name): expected a file with one name")
            }
            try change(file, mode: 0o600, name: name)
            try own(file, name: name)
        } catch {
            close(file)
            throw error
        }
        return file
    }

    /// Replaces the content of a file in the folder.
    func write(_ text: String, to name: String) throws(EmbeddedServerError) {
        let file = try openFile(name, O_WRONLY)
        defer { close(file) }
        let bytes = Array(text.utf8)
        guard ftruncate(file, 0) == 0, Foundation.write(file, bytes, bytes.count) == bytes.count else {
            throw EmbeddedServerError("cannot write \(path)/\(name): \(errnoText())")
        }
    }

    /// Renames a file if it is larger than this number of bytes.
    func rotate(_ name: String, to other: String, over bytes: Int) {
        var status = stat()
        guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0, status.st_size > bytes else { return }
        renameat(descriptor, name, descriptor, other)
    }

    /// Renames a subfolder, durably.
    func rename(_ name: String, to other: String) throws(EmbeddedServerError) {
        guard renameat(descriptor, name, descriptor, other) == 0 else {
            throw EmbeddedServerError("cannot rename \(path)/\(name): \(errnoText())")
        }
        fsync(descriptor)
    }

    private func status(of file: Int32, name: String?) throws(EmbeddedServerError) -> stat {
        var status = stat()
        guard fstat(file, &status) == 0 else { throw failure("read the status of", name) }
        return status
    }

    private func change(_ file: Int32, mode: mode_t, name: String?) throws(EmbeddedServerError) {
        guard fchmod(file, mode) == 0 else { throw failure("set the rights of", name) }
    }

    private func own(_ file: Int32, name: String?) throws(EmbeddedServerError) {
        guard let account else { return }
        guard fchown(file, account.user, account.group) == 0 else {
            throw failure("give to user \(account.name)", name)
        }
    }

    private func failure(_ action: String, _ name: String?) -> EmbeddedServerError {
        EmbeddedServerError("cannot \(action) \(name.map { "\(path)/\($0)" } ?? path): \(errnoText())")
    }
}
