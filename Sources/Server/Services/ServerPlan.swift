import AppStore
import EventLog
import HTTPServer
import Logging
import Outbound
import PlayStore
import StoreClient

/// What a server process runs: its settings, checked as far as possible without the database.
package struct ServerPlan {
    package let roles: Set<ServerRole>
    package let apps: [App]
    package let googleApps: [GoogleApp]
    package let receiptAddresses: ReceiptAddresses
    package let apiAddresses: ServerAPIAddresses
    package let googleAddresses: GoogleAddresses
    /// The clock and the budgets of the questions to Google Play; nil for the usual ones.
    package let googleAsking: (clock: StoreClock, budget: @Sendable (PlayRequest.Quota) -> CallBudget)?
    package let apiBudget: @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget
    package let verification: VerifierServices.Settings
    package let open: PublicServices.Settings
    package let receiving: ReceiverServices.Settings
    package var backends: PrivateServices.Settings
    package let outbound: OutboundServices.Settings
    /// Signs checkpoints; nil to sign none.
    package var signer: CheckpointSigner?

    package init(
        roles: Set<ServerRole>, apps: [App], googleApps: [GoogleApp] = [], receiptAddresses: ReceiptAddresses,
        apiAddresses: ServerAPIAddresses, googleAddresses: GoogleAddresses = .google,
        apiBudget: @escaping @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget = { $0.budget($1) },
        googleAsking: (clock: StoreClock, budget: @Sendable (PlayRequest.Quota) -> CallBudget)? = nil,
        verification: VerifierServices.Settings, open: PublicServices.Settings,
        receiving: ReceiverServices.Settings = ReceiverServices.Settings(),
        backends: PrivateServices.Settings, outbound: OutboundServices.Settings? = nil
    ) {
        self.roles = roles
        self.apps = apps
        self.googleApps = googleApps
        self.receiptAddresses = receiptAddresses
        self.apiAddresses = apiAddresses
        self.googleAddresses = googleAddresses
        self.apiBudget = apiBudget
        self.googleAsking = googleAsking
        self.verification = verification
        self.open = open
        self.receiving = receiving
        self.backends = backends
        self.outbound = outbound ?? OutboundServices.Settings()
    }

    /// Logs what an operator should know before the server starts.
    package func warn(rootFiles: [String], logger: Logger) {
        if roles.contains(.reader) {
            PublicServices.warn(open, asserted: Set(backends.assertionKeys.keys), logger: logger)
        }
        guard roles.contains(.receiver) else { return }
        ReceiverServices.warn(about: apps, googleApps, rootFiles: rootFiles, logger: logger)
    }
}

extension ServerPlan {
    /// - Parameter onListening: Called for each listener once it accepts connections.
    /// - Throws: ``SettingError``, ``TLSFileError``.
    package init(_ settings: Settings, logger: Logger, onListening: @escaping @Sendable () -> Void) throws {
        let apps = try settings.apps()
        self.init(
            roles: try settings.roles(), apps: apps, googleApps: try settings.googleApps(),
            receiptAddresses: try settings.receiptAddresses(), apiAddresses: try settings.serverAPIAddresses(),
            googleAddresses: try settings.googleAddresses(),
            verification: VerifierServices.Settings(
                apps: apps, roots: try settings.roots(), revocationMode: try settings.revocationMode()),
            open: PublicServices.Settings(
                address: try settings.publicAddress(),
                identity: try settings.publicTLS().map { try TLSIdentity(files: $0, logger: logger) },
                connectionsPerAddress: try settings.publicConnectionsPerAddress(),
                servesApps: try settings.publicApps(), onListening: { _ in onListening() }),
            receiving: ReceiverServices.Settings(
                quarantineMegabytes: try settings.quarantineMegabytes(), quarantineDays: try settings.quarantineDays()),
            backends: PrivateServices.Settings(
                address: try settings.privateAddress(),
                identity: try settings.privateTLS().map { try TLSIdentity(files: $0, logger: logger) },
                connectionsPerAddress: try settings.privateConnectionsPerAddress(), front: try settings.privateFront(),
                names: settings.privateNames, assertionKeys: try settings.assertionKeys(),
                hasConsoleActs: try settings.consoleActs(), hasStoreWrites: try settings.storeWrites(),
                onListening: { _ in onListening() }),
            outbound: OutboundServices.Settings(
                keyFile: try settings.webhookKeyFile(), forwards: try settings.forwards(),
                client: EndpointClientSettings(allowsPrivate: try settings.allowsPrivateEndpoints())))
    }
}
