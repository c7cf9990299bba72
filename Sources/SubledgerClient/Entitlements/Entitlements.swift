import Foundation

/// What a customer may use, and until when.
public struct Entitlement: Sendable, Hashable, Codable {
    /// The name of the entitlement, such as `premium`.
    public let id: String
    /// The end of the uninterrupted access; nil if it has none.
    public let until: Date?
    public let source: Source

    /// Who says so.
    public enum Source: String, Sendable, Hashable, Codable {
        /// The server, in an answer to this process.
        case server
        /// The server, in a signed answer that was kept on the device.
        case cached
        /// StoreKit on the device alone: the purchase has not reached the server.
        case device
    }

    public init(id: String, until: Date?, source: Source) {
        self.id = id
        self.until = until
        self.source = source
    }
}

/// What a customer may use at an instant.
public struct Entitlements: Sendable, Hashable {
    /// Sorted by their ids.
    public let active: [Entitlement]
    /// The position in the server's log up to which the signed answer knows everything; nil without one.
    public let position: Int64?
    /// The instant for which this was computed: the device's best knowledge of the true time.
    public let asOf: Date
    public let trust: Trust

    public init(active: [Entitlement], position: Int64?, asOf: Date, trust: Trust) {
        self.active = active
        self.position = position
        self.asOf = asOf
        self.trust = trust
    }

    public func isActive(_ id: String) -> Bool { active.contains { $0.id == id } }
}

/// How far the entitlements can be relied on.
public enum Trust: String, Sendable, Hashable {
    /// A signed answer of the server covers them, and is still valid.
    case verified
    /// The last signed answer is no longer valid, and the server could not be asked for another one.
    case expired
    /// The device's clock ran back, or stands before the last signed answer. What the answer grants is kept, by the least
    /// time that must have passed.
    case clockSuspect
    /// There has been no signed answer.
    case unverified
}

/// What restoring found.
public struct Restoration: Sendable, Hashable {
    public let entitlements: Entitlements
    /// The products of the purchases that the store has for the user, sorted; empty if there was nothing to restore.
    public let productIds: [String]
    /// Those of them that the server refused, because they are of another app, for example.
    public let refused: [String]
}
