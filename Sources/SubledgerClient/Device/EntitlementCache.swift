import Foundation

/// Where the last answer of the server is kept, for each user, and for the nil UUID what is known of the device's clocks. An
/// answer that is read is checked like one of the server.
public protocol EntitlementCache: Sendable {
    /// Nil if there is none, or none that can be read.
    func read(_ user: UUID) -> Data?
    /// Replaces what was kept.
    func write(_ data: Data, _ user: UUID) throws
    func remove(_ user: UUID) throws
}

/// Keeps the answers in files of a folder.
public struct FileCache: EntitlementCache {
    private let folder: URL

    /// - Parameter folder: Created if it does not exist. On Apple's systems, one below Application Support.
    public init(folder: URL) {
        self.folder = folder
    }

    public func read(_ user: UUID) -> Data? { try? Data(contentsOf: file(user)) }

    public func write(_ data: Data, _ user: UUID) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        #if os(iOS) || os(tvOS) || os(watchOS)
            // Purchases arrive in the background too, where files of a locked device cannot be written otherwise.
            try data.write(to: file(user), options: [.atomic, .completeFileProtectionUntilFirstUserAuthentication])
        #else
            try data.write(to: file(user), options: .atomic)
        #endif
    }

    public func remove(_ user: UUID) throws {
        guard FileManager.default.fileExists(atPath: file(user).path) else { return }
        try FileManager.default.removeItem(at: file(user))
    }

    private func file(_ user: UUID) -> URL { folder.appendingPathComponent("\(user.uuidString.lowercased()).json") }
}

/// What is kept for a user.
struct CachedAnswer: Codable, Sendable {
    /// The customer's id on the server.
    var customerId: String
    /// The signed text; nil if there was none.
    var token: String?
    /// The tag of the signed text, by which the server is asked whether it has changed.
    var tag: String?
    /// Of the user's purchases, as the server answered when one was handed in.
    var environment: String
    /// By product, learnt from the server's answers.
    var products: [String: [String]]
}
