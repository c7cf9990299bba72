import ArgumentParser
import Configuration
import Encoding
import EventLog
import Foundation

/// The flag of the commands that sign heads.
package struct HeadKeyFlags: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The private key that signs heads: Ed25519, PEM. Created if the file does not exist. \
            [SUBLEDGER_HEAD_KEY; head-key.pem in the data folder, none with a database URL]
            """, valueName: "file"))
    package var headKey: String?

    @Option(
        help: ArgumentHelp(
            """
            The name of this installation in checkpoints, of letters, digits and -._~; a new one begins a new series. \
            [SUBLEDGER_INSTALLATION; the first 16 digits of the public head key]
            """, valueName: "name"))
    package var installation: String?

    @Option(
        help: ArgumentHelp(
            """
            Folder that records the last signed checkpoints outside of the database. \
            [SUBLEDGER_CHECKPOINT_RECORD; the path of the head key with .checkpoints]
            """, valueName: "folder"))
    package var checkpointRecord: String?

    package init() {}

    package var values: [AbsoluteConfigKey: ConfigValue] {
        settings([
            (["head", "key"], headKey), (["installation"], installation), (["checkpoint", "record"], checkpointRecord),
        ])
    }
}

/// The file with the key that signs heads.
package struct HeadKeyFile {
    package let path: String

    /// Returns the key, and creates the file first if there is none. Safe from several processes at once: all return the
    /// same key.
    package func readOrCreate() throws(SettingError) -> HeadKey {
        if let key = try read() { return key }
        try create()
        guard let key = try read() else { throw SettingError(description: "head key \(path) cannot be read") }
        return key
    }

    /// Returns nil if there is no file.
    ///
    /// - Throws: If other users may read the file, or if it is not an Ed25519 key.
    package func read() throws(SettingError) -> HeadKey? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw SettingError(description: "head key \(path) cannot be read: \(String(cString: strerror(errno)))")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & 0o077 == 0 else {
            throw SettingError(description: "head key \(path) can be read by other users: expected mode 0600")
        }
        guard let bytes = try? handle.readToEnd(), let key = HeadKey(pem: String(decoding: bytes, as: UTF8.self)) else {
            throw SettingError(description: "head key \(path) is not an Ed25519 private key in PEM")
        }
        return key
    }

    /// Writes a new key under another name and links it, so that no process reads half of it and none replaces it.
    private func create() throws(SettingError) {
        let draft = "\(path).\(UUID().uuidString)"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw SettingError(description: "head key \(path) cannot be created: \(String(cString: strerror(errno)))")
        }
        defer { unlink(draft) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // The server reads it as the user that owns the folder.
        var folder = stat()
        if geteuid() == 0, stat((path as NSString).deletingLastPathComponent, &folder) == 0 {
            _ = fchown(descriptor, folder.st_uid, folder.st_gid)
        }
        do {
            try handle.write(contentsOf: Data(HeadKey().pem.utf8))
            try handle.synchronize()
        } catch {
            throw SettingError(description: "head key \(path) cannot be written")
        }
        guard link(draft, path) == 0 || errno == EEXIST else {
            throw SettingError(description: "head key \(path) cannot be created: \(String(cString: strerror(errno)))")
        }
    }
}

extension Settings {
    /// The file with the key that signs heads; nil if heads are not signed. Servers that share a database need the same
    /// key, so none of them makes one of its own.
    package func headKeyFile() throws(SettingError) -> HeadKeyFile? {
        if let path = configuredHeadKey { return HeadKeyFile(path: path) }
        return try databaseURL() == nil ? HeadKeyFile(path: "\(dataFolder)/head-key.pem") : nil
    }

    /// Returns the key that signs heads.
    ///
    /// - Throws: ``SettingError`` without one.
    package func headKey() throws(SettingError) -> HeadKey {
        guard let file = try headKeyFile() else {
            throw SettingError(description: "no key signs heads: set --head-key or SUBLEDGER_HEAD_KEY")
        }
        return try file.readOrCreate()
    }

    /// What signs checkpoints with a key. Nil if the key is not in a file.
    ///
    /// - Throws: ``SettingError`` if the name of the installation cannot be part of an origin.
    package func checkpointSigner(_ key: HeadKey) throws(SettingError) -> CheckpointSigner? {
        guard let file = try headKeyFile() else { return nil }
        let name = configuredInstallation ?? String(Hex.text(key.publicKey.bytes).prefix(16))
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        let allowed = name.utf8.allSatisfy { "\(letters)0123456789-._~".utf8.contains($0) }
        guard allowed, 1...64 ~= name.utf8.count else {
            throw SettingError(
                description: "installation \"\(name)\": expected at most 64 letters, digits and characters of -._~")
        }
        return CheckpointSigner(
            key: key, installation: name,
            record: CheckpointRecord(folder: configuredCheckpointRecord ?? "\(file.path).checkpoints"),
            now: SystemClock.now)
    }

    /// The checkpoints in files, each with one.
    package static func checkpoints(inFiles names: [String]) throws(SettingError) -> [SignedCheckpoint] {
        var checkpoints: [SignedCheckpoint] = []
        for name in names {
            guard let bytes = InputFile.read(name) else {
                throw SettingError(description: "\(name): \(InputFile.unreadable)")
            }
            guard let checkpoint = SignedCheckpoint(encoded: String(decoding: bytes, as: UTF8.self)) else {
                throw SettingError(
                    description: "\(name): expected a checkpoint as `subledger head --checkpoint` prints it")
            }
            checkpoints.append(checkpoint)
        }
        return checkpoints
    }

    /// The keys whose heads are accepted: those given; without one, that of the file.
    package func headPublicKeys(_ given: [String]) throws(SettingError) -> [HeadPublicKey] {
        var keys: [HeadPublicKey] = []
        for text in given {
            guard let key = HeadPublicKey(hexadecimal: text) else {
                throw SettingError(description: "public key \"\(text)\": expected 64 hexadecimal digits")
            }
            keys.append(key)
        }
        if keys.isEmpty, let key = try headKeyFile()?.read() { keys.append(key.publicKey) }
        guard !keys.isEmpty else {
            throw SettingError(description: "no key is known that signs heads: set --public-key")
        }
        return keys
    }

    /// The heads in files.
    package static func heads(inFiles names: [String]) throws(SettingError) -> [SignedHead] {
        var heads: [SignedHead] = []
        for name in names {
            guard let bytes = InputFile.read(name) else {
                throw SettingError(description: "\(name): \(InputFile.unreadable)")
            }
            guard let read = SignedHead.heads(inLines: bytes) else {
                throw SettingError(description: "\(name): expected signed heads as `subledger head` prints them")
            }
            heads += read
        }
        return heads
    }
}
