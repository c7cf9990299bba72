import AppStore
import Encoding
import EventLog
import HTTPServer
import Logging
import PlayStore
import Postgres
import Readers
import Server
import Simulation
import StoreClient
import Subscriptions

// What a run in step needs before it begins: the settings of its server, and the contents of its database.
extension SimulationInStep {
    /// The settings of the server.
    ///
    /// - Parameters:
    ///   - storeAddress: The base URL of the simulated stores.
    ///   - site: Where it listens; nil for any free ports.
    func plan(
        _ storeAddress: String, _ clock: SimulatedClock, at site: ServerSite?, _ publicPort: Expected<Int>,
        _ privatePort: Expected<Int>
    ) throws -> ServerPlan {
        let apps = try simulation.map { [try app(of: $0)] } ?? []
        guard let root = RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)) else {
            throw SettingError(description: "the test root certificate cannot be read")
        }
        return ServerPlan(
            roles: [.receiver, .projector, .reader], apps: apps,
            googleApps: try google.map { [try app(of: $0, storeAddress)] } ?? [],
            receiptAddresses: ReceiptAddresses(
                production: "\(storeAddress)/production/verifyReceipt", sandbox: "\(storeAddress)/sandbox/verifyReceipt"
            ),
            apiAddresses: ServerAPIAddresses(
                production: "\(storeAddress)/production", sandbox: "\(storeAddress)/sandbox"),
            googleAddresses: GoogleAddresses(
                api: "\(storeAddress)/google", signingKeys: "\(storeAddress)/google/oauth2/v3/certs"),
            apiBudget: { _, _ in Self.callBudget },
            googleAsking: (clock: clock.storeClock, budget: { _ in Self.callBudget }),
            verification: VerifierServices.Settings(apps: apps, roots: root, revocationMode: .off),
            open: PublicServices.Settings(
                address: ListenAddress(host: ServerSite.host, port: site?.publicPort ?? 0),
                connectionsPerAddress: Self.connectionsMax, onListening: { publicPort.set($0) }),
            backends: PrivateServices.Settings(
                address: ListenAddress(host: ServerSite.host, port: site?.privatePort ?? 0),
                connectionsPerAddress: Self.connectionsMax, onListening: { privatePort.set($0) }))
    }

    private func app(of simulation: Simulation) throws -> App {
        let simulated = simulation.settings.app
        return App(
            bundleId: simulated.bundleId, appAppleId: simulated.appAppleId,
            sharedSecrets: [simulated.sharedSecret].compactMap(\.self), ownership: rules(simulation.settings.ownership),
            callBudget: Self.callBudget,
            serverAPIKey: sending != nil
                ? try ServerAPIKey(
                    issuerId: SimulatedAPIKey.standard.issuerId, keyId: SimulatedAPIKey.standard.keyId,
                    pem: SimulatedAPIKey.standard.pem) : nil)
    }

    private func app(of google: PlaySimulation, _ storeAddress: String) throws -> GoogleApp {
        let keyFile = PlayServiceAccount.standard.keyFile(tokenURI: "\(storeAddress)/google/token")
        return GoogleApp(
            PlayApp(
                packageName: google.storyteller.settings.packageName,
                pushAuthentication: .identity(audience: Self.pushAudience, email: pushing.email),
                pushSubscription: pushing.subscription),
            credentials: .serviceAccount(try ServiceAccount(keyFile: keyFile)),
            licenseKey: SignedPlayPurchase.publicKey(), ownership: rules(google.ownership))
    }

    private func rules(_ policy: OwnershipPolicy) -> OwnershipRules {
        OwnershipRules(policy: policy, storeAccountsPerTokenMax: OwnershipRules.standard.storeAccountsPerTokenMax)
    }

    static let pushAudience = "https://ledger.example.com/google/notifications"

    /// The simulated time passes much faster than budgets of calls allow.
    private static let callBudget = CallBudget(
        callsPerMinute: CallBudget.callsPerMinuteMax, concurrency: CallBudget.concurrencyMax)

    /// More than the simulator opens.
    private static let connectionsMax = 2000

    // MARK: The database

    /// Checks that the database is empty, configures the products and their policies, and returns a token.
    func prepare(_ database: Database) async throws -> EventLog.AccessToken {
        let reader = database.pool(.reader, limit: 1, logger: logger)
        for stream in streams {
            guard try await LogReader(pool: reader).lastPosition(of: stream) > 0 else { continue }
            await reader.close()
            throw SettingError(
                description: "the database has events of \(stream.app) already: expected a database of its own")
        }
        await reader.close()
        try await configureProducts(database)
        var random = SystemRandomNumberGenerator()
        let token = EventLog.AccessToken(using: &random)
        let owner = try await PostgresConnection.connect(
            database.owner, deadline: .now + Database.Limits.connectWaitMax)
        do {
            try await TokenStore(connection: owner).record(token, scope: .link, name: "simulate")
            await owner.close()
        } catch {
            await owner.close()
            throw error
        }
        return token
    }

    private func configureProducts(_ database: Database) async throws {
        var products: [ConfiguredProduct] = []
        if let google { products += try google.products.map { try configured($0, google.packageName) } }
        guard let app = simulation?.settings.app.bundleId else {
            return try await database.withConnection(.products) { [products] in
                try await ProductTable.state(products, on: $0)
            }
        }
        let ofApple = try Product.all(of: app).map { try configured($0, app) }
        products += ofApple
        try await database.withConnection(.products) { [products] in try await ProductTable.state(products, on: $0) }
        let editor = database.pool(.products, limit: 1, logger: logger)
        let content = try ConsumptionAnswer(isSampleProvided: true, delivery: .delivered, preference: .decline)
        for product in ofApple {
            let policy = ConsumptionPolicy(productId: product.productId, content: content, statedAt: Simulation.start)
            try await ConsumptionPolicies(pool: editor).state(policy, of: app)
        }
        await editor.close()
    }

    private func configured(_ product: Product, _ app: String) throws -> ConfiguredProduct {
        try ConfiguredProduct(
            app: app, productId: product.id, kind: product.kind.word, duration: nil,
            entitlements: product.configuredEntitlements)
    }
}
