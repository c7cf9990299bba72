import AppStore
import Encoding
import Simulation
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("Transactions that backends hand in by their ids")
struct TransactionLookupTests {
    static let app = "com.example.app"

    struct Bundle {
        let server: TestBundle
        let store: SimulatedStore
        let gateway: HTTPClient
        /// The first subscription of the first account.
        let id: String

        func handIn(_ body: String) async throws -> HTTPAnswer {
            try await gateway.post(Array(body.utf8), to: "/transactions?app=\(app)&environment=any")
        }

        func ask(_ id: String? = nil, customer: String? = nil) async throws -> HTTPAnswer {
            let customerId = customer.map { #","customerId":"\#($0)""# } ?? ""
            return try await handIn(#"{"transactionId":"\#(id ?? self.id)"\#(customerId)}"#)
        }

        var requests: Int { store.api.counts.reduce(0) { $0 + $1.count } }
    }

    /// - Parameter key: The app's key.
    static func with(
        _ environment: Subscriptions.Environment = .production, hasKey: Bool = true,
        _ change: (inout SimulatedServerAPI.Settings) -> Void = { _ in }, _ test: (Bundle) async throws -> Void
    ) async throws {
        var run = Simulation.Settings(
            app: SimulatedApp(bundleId: app, appAppleId: 1_400_000_001, environment: environment))
        run.stories = [.renewals]
        run.subscriptions = 3
        let simulation = try #require(Simulation(run))
        let root = try #require(RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)))
        let configured = App(
            bundleId: app, appAppleId: 1_400_000_001, serverAPIKey: hasKey ? try DeliveryBundle.key() : nil)
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { Simulation.end }
        change(&settings)
        let store = SimulatedStore(simulation, api: settings)
        try await StoreServer.serve(store) { addresses, transport in
            let client = ServerAPIClient(
                transport: transport, addresses: addresses, clock: StoreClock(date: { Simulation.end }),
                random: { 0 }, logger: LogRecorder().logger)
            try await TestBundle.withServer(apps: [configured], roots: root, api: client, now: { Simulation.end }) {
                server in
                let gateway = try await server.client(with: .submit)
                let account = simulation.storyteller.accounts(ofStory: 0)[0]
                try await test(
                    Bundle(
                        server: server, store: store, gateway: gateway,
                        id: account.subscriptions[0].originalTransactionId))
            }
        }
    }

    private static let sources = """
        select source
        from subledger.event
        order by position
        """ as StaticString

    @Test(
        "Apple is asked, production first, and the state of the subscription is stored and linked",
        arguments: [Subscriptions.Environment.production, .sandbox])
    func found(_ environment: Subscriptions.Environment) async throws {
        try await Self.with(environment) { bundle in
            let answer = try await bundle.ask(customer: "u-1")
            let again = try await bundle.ask(customer: "u-1")
            let customer = try await bundle.server.backend.get(
                "/customers/u-1/entitlements?as=link&environment=\(environment.rawValue)")

            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.json["environment"] as? String == environment.rawValue)
            #expect(answer.json["registered"] as? String == "new" && answer.json["linked"] as? Bool == true)
            let subscriptions = answer.json["subscriptions"] as? [[String: Any]] ?? []
            #expect(subscriptions.map { $0["originalTransactionId"] as? String } == [bundle.id])
            #expect(again.status == 200 && again.json["registered"] as? String == "known")
            #expect(again.json["position"] == nil)
            #expect((customer.json["entitlements"] as? [Any])?.isEmpty == false, "\(customer.body)")
            // The first purchase, the state with its renewal info, and the link.
            #expect(try await bundle.server.sql(Self.sources) == ["apple-api", "apple-api", "backend"])
        }
    }

    /// Ids are consecutive, and stand in mails and receipts.
    @Test("an id takes nothing from the customer that has handed in the purchase, under the standard policy too")
    func guessed() async throws {
        try await Self.with { bundle in
            let owner = try await bundle.ask(customer: "victim")
            let guess = try await bundle.ask(customer: "attacker")
            let victim = try await bundle.server.backend.get("/customers/victim/entitlements?as=link")
            let attacker = try await bundle.server.backend.get("/customers/attacker/entitlements?as=link")

            #expect(owner.json["linked"] as? Bool == true, "\(owner.body)")
            #expect(guess.status == 200 && guess.json["linked"] as? Bool == false, "\(guess.body)")
            #expect(guess.json["registered"] as? String == "otherCustomer")
            #expect((victim.json["entitlements"] as? [Any])?.isEmpty == false, "\(victim.body)")
            #expect(attacker.status == 404, "\(attacker.body)")
            #expect(try await bundle.server.sql(Self.sources) == ["apple-api", "apple-api", "backend"])
        }
    }

    @Test("an id that no host knows is not found, and nothing is stored")
    func unknown() async throws {
        try await Self.with { bundle in
            let answer = try await bundle.ask("999999999999999")

            #expect(answer.status == 404 && answer.json["field"] as? String == "transactionId", "\(answer.body)")
            #expect(try await bundle.server.sql(Self.sources).isEmpty)
        }
    }

    @Test("without a key, with a wrong key and without an answer, nothing is stored")
    func failures() async throws {
        try await Self.with(hasKey: false) { bundle in
            let answer = try await bundle.ask()
            #expect(answer.status == 404 && answer.json["field"] as? String == "app")
            #expect(bundle.requests == 0)
        }
        try await Self.with(.production, { $0.isReleased = false }) { bundle in
            let answer = try await bundle.ask()
            #expect(answer.status == 503, "\(answer.body)")
        }
        try await Self.with { bundle in
            bundle.store.api.inject(.overloaded, requests: 20)
            let answer = try await bundle.ask()
            #expect(answer.status == 503 && answer.headers["retry-after"] != nil, "\(answer.body)")
            #expect(try await bundle.server.sql(Self.sources).isEmpty)
        }
    }

    @Test(
        "answers that are not genuine are not stored",
        arguments: [StoreAPIFault.unsigned, .otherRoot, .otherApp, .otherEnvironment, .cutOff])
    func notGenuine(_ fault: StoreAPIFault) async throws {
        try await Self.with { bundle in
            bundle.store.api.inject(fault, requests: 20)
            let answer = try await bundle.ask()

            #expect(answer.status == 503, "\(answer.body)")
            #expect(try await bundle.server.sql(Self.sources).isEmpty)
        }
    }

    @Test(
        "other ids are refused without a question",
        arguments: [
            #"{"transactionId":"12a"}"#, #"{"transactionId":""}"#, #"{"transactionId":7}"#,
            #"{"transactionId":"123456789012345678901"}"#, #"{"transactionId":"1","signedTransaction":"a.b.c"}"#,
        ])
    func malformed(_ body: String) async throws {
        try await Self.with { bundle in
            let answer = try await bundle.handIn(body)

            #expect(answer.status == 400 && answer.json["field"] as? String == "transactionId", "\(answer.body)")
            #expect(bundle.requests == 0)
        }
    }
}
