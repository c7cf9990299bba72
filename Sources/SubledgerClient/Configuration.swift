/// How an app uses the server.
public struct Configuration: Sendable {
    /// The bundle id.
    public let app: String
    /// The keys that sign answers: the one in use, and the next one before it is used. Compiled into the app.
    public let keys: [ServerKey]
    /// The entitlements of each product, for purchases that have not reached the server. The answers to what is handed in
    /// add to it. A product in neither grants the entitlement of its own id, as on the server.
    public let products: [String: [String]]
    public let deviceGrants: DeviceGrants

    /// When purchases that only the device knows grant access. They must be the user's, verified by the device, not revoked
    /// and not expired.
    public enum DeviceGrants: Sendable, Hashable {
        /// Those that were made after the last signed answer was issued, for a week: about older ones, the server has said
        /// what it says.
        case sinceLastAnswer
        /// All, once there is no valid signed answer. A customer whose device is offline for longer than an answer is valid
        /// keeps access, and so does one whose purchase was refunded meanwhile.
        case withoutAnswer
        case none
    }

    public init(
        app: String, keys: [ServerKey], products: [String: [String]] = [:],
        deviceGrants: DeviceGrants = .sinceLastAnswer
    ) {
        self.app = app
        self.keys = keys
        self.products = products
        self.deviceGrants = deviceGrants
    }
}
