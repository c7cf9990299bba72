import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Simulation
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("Refund requests are answered in time, once, and with consent")
struct ConsumptionTests {
    /// A server, a store that has just asked about a purchase, and a backend.
    private struct Bundle {
        let deliveries: DeliveryBundle
        /// May state answers.
        let backend: HTTPClient
        let transactionId: String
        let productId: String
        /// When the question arrived.
        let askedAt: Instant

        var server: TestBundle { deliveries.server }
        var store: SimulatedStore { deliveries.store }
        var sent: [SimulatedConsumption] { deliveries.store.api.consumptions }
        var now: Instant { deliveries.clock.now }

        func path(_ id: String? = nil) -> String {
            "/consumption-requests/\(id ?? transactionId)?app=\(DeliveryBundle.bundleId)"
        }

        func policy(_ id: String? = nil) -> String {
            "/consumption-policies/\(id ?? productId)?app=\(DeliveryBundle.bundleId)"
        }

        func list(_ query: String = "") async throws -> [[String: Any]] {
            let answer = try await server.backend.get("/consumption-requests?app=\(DeliveryBundle.bundleId)\(query)")
            return answer.json["requests"] as? [[String: Any]] ?? []
        }

        /// The state of the request.
        func state() async throws -> String? { try await server.backend.get(path()).json["state"] as? String }

        func advance(by duration: Duration) async { await deliveries.pass(to: now.advanced(by: duration)) }
    }

    /// Runs the test after the store has asked about a purchase of the story.
    private static func with(_ test: (Bundle) async throws -> Void) async throws {
        try await DeliveryBundle.with(stories: [.refundDeclined]) { deliveries in
            let question = try #require(
                deliveries.store.api.notifications(at: Simulation.end).first { $0.type == "CONSUMPTION_REQUEST" })
            let askedAt = question.signedDate.advanced(by: .seconds(60))
            await deliveries.pass(to: askedAt)
            let backend = try await deliveries.server.client(with: .link)
            let list = try await deliveries.server.backend.get(
                "/consumption-requests?app=\(DeliveryBundle.bundleId)&state=waiting")
            let request = try #require((list.json["requests"] as? [[String: Any]])?.first, "\(list.body)")
            try await test(
                Bundle(
                    deliveries: deliveries, backend: backend,
                    transactionId: try #require(request["transactionId"] as? String),
                    productId: try #require(request["productId"] as? String), askedAt: askedAt))
        }
    }

    /// What one process sends with.
    private struct Sender {
        let sender: ConsumptionSender
        let leadership: StreamLeadership
        let pool: PostgresPool

        /// A round that a busy database did not answer in time is made again, as a server does.
        func round(at now: Instant) async throws -> Int {
            try await eventually(within: .seconds(60), "the database answers") {
                do {
                    return try await sender.round(at: now)
                } catch ReadError.unavailable {
                    return nil
                }
            }
        }
    }

    private static func withSender(
        _ bundle: Bundle, client: ServerAPIClient? = nil, _ test: (Sender) async throws -> Void
    ) async throws {
        let poller = bundle.server.database.with(role: "subledger_poller")
        let logger = bundle.server.logs.logger
        let pool = PostgresPool(poller, limit: 2, logger: logger)
        let leadership = StreamLeadership(Elector(poller), for: .refunds)
        let sender = ConsumptionSender(
            client: client ?? bundle.deliveries.client, apps: [bundle.deliveries.app], log: ConsumptionLog(pool: pool),
            writes: WriteLog(pool: pool, appender: bundle.server.appender), leadership: leadership,
            clock: bundle.deliveries.storeClock, random: { 0 }, logger: logger)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(Sender(sender: sender, leadership: leadership, pool: pool)))
        } catch {
            outcome = .failure(error)
        }
        await leadership.release()
        await pool.close()
        try outcome.get()
    }

    private static let declining = """
        {"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":"DELIVERED","refundPreference":"DECLINE"}
        """
    private static let granting = """
        {"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":"DELIVERED",\
        "refundPreference":"GRANT_FULL"}
        """

    // MARK: - Backends

    @Test("a backend finds the request, answers it, and Apple gets these bytes once")
    func answered() async throws {
        try await Self.with { bundle in
            let list = try await bundle.list()
            let stated = try await bundle.backend.put(Self.declining, to: bundle.path())
            let pending = try await bundle.state()
            try await Self.withSender(bundle) { sender in
                let first = try await sender.round(at: bundle.now)
                let second = try await sender.round(at: bundle.now.advanced(by: .seconds(3600)))

                #expect(first == 1 && second == 0)
            }
            let accepted = try await bundle.server.backend.get(bundle.path())
            let again = try await bundle.backend.put(Self.declining, to: bundle.path())
            let other = try await bundle.backend.put(Self.granting, to: bundle.path())

            #expect(list.count == 1 && list[0]["state"] as? String == "waiting")
            #expect(list[0]["reason"] as? String == "UNINTENDED_PURCHASE" && list[0]["requests"] as? Int == 1)
            #expect(
                list[0]["deadline"] as? String == bundle.askedAt.advanced(by: .seconds(12 * 3600)).description)
            #expect(stated.status == 200 && pending == "pending", "\(stated.body)")
            #expect(bundle.sent.map(\.transactionId) == [bundle.transactionId])
            #expect(bundle.sent.map { String(decoding: $0.body, as: UTF8.self) } == [Self.declining])
            #expect(bundle.sent.allSatisfy { $0.version == 2 && $0.isInTime })
            #expect(accepted.json["state"] as? String == "accepted")
            let answer = accepted.json["answer"] as? [String: Any] ?? [:]
            #expect(answer["statedBy"] as? String == "backend" && answer["refundPreference"] as? String == "DECLINE")
            #expect(again.status == 200)
            #expect(other.status == 409)
            try await bundle.server.isFolded()
            let writes = try await bundle.server.backend.get(
                "/subscriptions/\(list[0]["originalTransactionId"] as? String ?? "")?app=\(DeliveryBundle.bundleId)")
            #expect(writes.body.contains(#""writes":[{"#) && writes.body.contains(#""action":"answer_refund""#))
            #expect(writes.body.contains(#""by":"backend""#) && writes.body.contains(#""result":"accepted""#))
            #expect(writes.body.contains(#""consumption":{"customerConsented":true,"#), "\(writes.body)")
            #expect(other.json["detail"] as? String == "Apple has accepted another answer")
            #expect(try await bundle.list("&state=waiting").isEmpty)
            #expect(try await bundle.list("&state=accepted").count == 1)
        }
    }

    @Test("without consent nothing is sent, also if a product has a policy")
    func noConsent() async throws {
        try await Self.with { bundle in
            let refused = try await bundle.backend.put(#"{"customerConsented":false}"#, to: bundle.path())
            let policy = try await bundle.server.owner.put(Self.declining, to: bundle.policy())
            try await Self.withSender(bundle) { sender in
                let sent = try await sender.round(at: bundle.now)
                #expect(sent == 0)
            }

            #expect(refused.status == 200 && policy.status == 200)
            #expect(refused.json["state"] as? String == "no_consent")
            #expect((refused.json["answer"] as? [String: Any])?["customerConsented"] as? Bool == false)
            #expect(bundle.sent.isEmpty)
            #expect(try await bundle.state() == "no_consent")
        }
    }

    @Test("a policy answers by itself, until it is removed")
    func policy() async throws {
        try await Self.with { bundle in
            let stated = try await bundle.server.owner.put(Self.declining, to: bundle.policy())
            let list = try await bundle.server.backend.get("/consumption-policies?app=\(DeliveryBundle.bundleId)")
            try await Self.withSender(bundle) { sender in
                let sent = try await sender.round(at: bundle.now)
                #expect(sent == 1)
            }
            let removed = try await bundle.server.owner.send("DELETE", bundle.policy())
            let missing = try await bundle.server.owner.send("DELETE", bundle.policy())

            #expect(stated.status == 200 && removed.status == 204 && missing.status == 404)
            #expect(
                (list.json["policies"] as? [[String: Any]])?.map { $0["productId"] as? String } == [bundle.productId])
            #expect(bundle.sent.map { String(decoding: $0.body, as: UTF8.self) } == [Self.declining])
            let answer = try await bundle.server.backend.get(bundle.path()).json["answer"] as? [String: Any]
            #expect(answer?["statedBy"] as? String == "policy")
        }
    }

    @Test("the policy of another product answers nothing")
    func otherPolicy() async throws {
        try await Self.with { bundle in
            _ = try await bundle.server.owner.put(Self.declining, to: bundle.policy("com.example.other"))
            try await Self.withSender(bundle) { sender in
                let sent = try await sender.round(at: bundle.now)
                #expect(sent == 0)
            }
            #expect(try await bundle.state() == "waiting")
        }
    }

    @Test("what is wrong with an answer or a policy is said, and nothing is stored")
    func refused() async throws {
        try await Self.with { bundle in
            let percentage = Self.declining.dropLast() + #","consumptionPercentage":50000}"#
            let onRenewable = try await bundle.backend.put(String(percentage), to: bundle.path())
            let misspelt = try await bundle.backend.put(#"{"customerConsent":true}"#, to: bundle.path())
            let unknown = try await bundle.backend.put(Self.declining, to: bundle.path("2000000000000000"))
            let sandbox = try await bundle.backend.put(Self.declining, to: bundle.path() + "&environment=sandbox")
            let reader = try await bundle.server.backend.put(Self.declining, to: bundle.path())
            let noConsent = try await bundle.server.owner.put(#"{"customerConsented":false}"#, to: bundle.policy())
            let otherApp = try await bundle.server.owner.put(
                Self.declining, to: "/consumption-policies/p?app=com.example.other")
            let linkOnly = try await bundle.backend.put(Self.declining, to: bundle.policy())
            let state = try await bundle.server.backend.get(
                "/consumption-requests?app=\(DeliveryBundle.bundleId)&state=done")

            #expect(onRenewable.status == 422 && onRenewable.json["field"] as? String == "consumptionPercentage")
            #expect(misspelt.status == 400 && misspelt.json["field"] as? String == "customerConsent")
            #expect(unknown.status == 404 && sandbox.status == 404)
            #expect(reader.status == 403 && linkOnly.status == 403)
            #expect(noConsent.status == 400 && noConsent.json["field"] as? String == "customerConsented")
            #expect(otherApp.status == 409 && otherApp.json["field"] as? String == "app")
            #expect(state.status == 400 && state.json["field"] as? String == "state")
            #expect(try await bundle.state() == "waiting")
        }
    }

    @Test("after the deadline, and after the decision, an answer is not taken")
    func tooLate() async throws {
        try await Self.with { bundle in
            await bundle.advance(by: .seconds(12 * 3600))
            let late = try await bundle.backend.put(Self.declining, to: bundle.path())
            let state = try await bundle.state()
            await bundle.deliveries.pass(to: Simulation.end)
            let decided = try await bundle.backend.put(Self.declining, to: bundle.path())

            #expect(late.status == 409 && state == "unanswered")
            #expect((late.json["detail"] as? String)?.hasPrefix("the deadline was ") == true, "\(late.body)")
            #expect(decided.status == 409)
            #expect(decided.json["detail"] as? String == "Apple has decided about the request")
            #expect((decided.json["decision"] as? [String: Any]) == nil)
            let request = try await bundle.server.backend.get(bundle.path())
            #expect((request.json["decision"] as? [String: Any])?["result"] as? String == "declined")
        }
    }

    // MARK: - Sending

    @Test("an outage of eleven hours and a restart in between do not miss the deadline")
    func deadline() async throws {
        try await Self.with { bundle in
            _ = try await bundle.server.owner.put(Self.declining, to: bundle.policy())
            bundle.store.api.inject(.overloaded, requests: 100_000)
            try await Self.withSender(bundle) { sender in
                for _ in 0..<66 {
                    _ = try await sender.round(at: bundle.now)
                    await bundle.advance(by: .seconds(300))
                }
                #expect(try await bundle.state() == "pending")
            }
            await bundle.advance(by: .seconds(5 * 3600))
            #expect(bundle.sent.isEmpty)
            bundle.store.api.withdrawFaults()
            // Another process: nothing but the database is left of the first one.
            let client = bundle.deliveries.newClient()
            try await Self.withSender(bundle, client: client) { sender in
                let sent = try await sender.round(at: bundle.now)
                #expect(sent == 1)
            }

            #expect(bundle.sent.count == 1 && bundle.sent.allSatisfy(\.isInTime))
            #expect(try await bundle.state() == "accepted")
        }
    }

    @Test("the last attempt comes just before the deadline, and none after it")
    func lastAttempt() async throws {
        try await Self.with { bundle in
            _ = try await bundle.backend.put(Self.declining, to: bundle.path())
            bundle.store.api.inject(.overloaded, requests: 100_000)
            await bundle.advance(by: .seconds(12 * 3600 - 400))
            let next = { try await bundle.server.sql("select next_at::text from subledger.consumption_answer") }
            try await Self.withSender(bundle) { sender in
                // Fails often enough for the longest pause.
                for _ in 0..<7 {
                    _ = try await sender.round(at: bundle.now)
                    await bundle.deliveries.pass(
                        to: try #require(
                            Instant(iso8601: try await next()[0].replacing(" ", with: "T").replacing("+00", with: "Z")))
                    )
                    guard bundle.now < bundle.askedAt.advanced(by: .seconds(12 * 3600 - 60)) else { break }
                }
                #expect(bundle.now == bundle.askedAt.advanced(by: .seconds(12 * 3600 - 60)))
                _ = try await sender.round(at: bundle.now)
                bundle.store.api.withdrawFaults()
                await bundle.advance(by: .seconds(60))
                #expect(try await sender.round(at: bundle.now) == 0)
            }
            #expect(bundle.sent.isEmpty)
            #expect(try await bundle.state() == "late")
            #expect(bundle.server.logs.text.contains("warning answers to refund requests too late"))
        }
    }

    @Test("what Apple refuses is not sent again, and a backend may correct it")
    func corrected() async throws {
        try await Self.with { bundle in
            _ = try await bundle.backend.put(Self.declining, to: bundle.path())
            bundle.store.api.inject(.error(4_000_044))
            try await Self.withSender(bundle) { sender in
                _ = try await sender.round(at: bundle.now)
                let refused = try await bundle.server.backend.get(bundle.path())
                #expect(refused.json["state"] as? String == "refused")
                let problem = (refused.json["answer"] as? [String: Any])?["problem"] as? String
                #expect(problem == "the App Store refuses the request (error 4000044)")
                #expect(try await sender.round(at: bundle.now.advanced(by: .seconds(3600))) == 0)

                let corrected = try await bundle.backend.put(Self.granting, to: bundle.path())
                #expect(corrected.status == 200)
                #expect(try await sender.round(at: bundle.now) == 1)
            }
            #expect(bundle.sent.map { String(decoding: $0.body, as: UTF8.self) } == [Self.granting])
            #expect(bundle.server.logs.text.contains("warning answer to refund request refused"))
            #expect(!bundle.server.logs.text.contains(bundle.transactionId))
        }
    }

    @Test("a policy that contradicts the type of the product is refused without a call")
    func contradiction() async throws {
        try await Self.with { bundle in
            let policy = String(Self.declining.dropLast() + #","consumptionPercentage":50000}"#)
            _ = try await bundle.server.owner.put(policy, to: bundle.policy())
            try await Self.withSender(bundle) { sender in _ = try await sender.round(at: bundle.now) }

            let refused = try await bundle.server.backend.get(bundle.path())
            #expect(refused.json["state"] as? String == "refused")
            let problem = (refused.json["answer"] as? [String: Any])?["problem"] as? String
            #expect(problem == "contradicts the purchase: consumptionPercentage")
            #expect(bundle.store.api.counts.isEmpty)
        }
    }

    @Test("questions with other ids about the same purchase are answered once")
    func askedTwice() async throws {
        try await Self.with { bundle in
            _ = try await bundle.server.owner.put(Self.declining, to: bundle.policy())
            try await Self.withSender(bundle) { sender in
                _ = try await sender.round(at: bundle.now)
                let connection = try await TestCluster.connect(bundle.server.database)
                try await connection.script(Self.secondQuestion, deadline: .now + .seconds(10))
                await connection.close()
                let found = try await bundle.list()
                #expect(found.map { $0["requests"] as? Int } == [2])
                #expect(try await sender.round(at: bundle.now.advanced(by: .seconds(60))) == 0)
            }
            #expect(bundle.sent.count == 1)
        }
    }

    /// The same question with another id.
    private static let secondQuestion = """
        insert into subledger.event (
          stream_id, position, received_at, occurred_at, source, type, kind, dedupe_key, facts, body_sha256, chain_id,
          revocation, chain
        )
        select stream_id, position + 1000, received_at + interval '1 hour', occurred_at + interval '1 hour', source, type,
          kind, sha256('again'), facts, body_sha256, chain_id, revocation, chain
        from subledger.event
        where kind = 'consumption_request'
        """

    @Test("an answer that is replaced while it is sent is sent again as it is now")
    func replaced() async throws {
        try await Self.with { bundle in
            let log = ConsumptionLog(
                pool: PostgresPool(bundle.server.database, limit: 1, logger: bundle.server.logs.logger))
            _ = try await bundle.backend.put(Self.declining, to: bundle.path())
            let sending = try #require(
                try await log.due(in: DeliveryBundle.stream, at: bundle.now, limit: 10).requests.first)
            await bundle.advance(by: .seconds(1))
            _ = try await bundle.backend.put(Self.granting, to: bundle.path())
            try await log.record(
                .accepted, problem: nil, of: sending, statedAt: try #require(sending.answer).statedAt,
                askedAt: bundle.now, nextAt: nil)
            let state = try await bundle.state()
            try await Self.withSender(bundle) { sender in
                let sent = try await sender.round(at: bundle.now)
                #expect(sent == 1)
            }

            #expect(state == "pending")
            #expect(bundle.sent.map { String(decoding: $0.body, as: UTF8.self) } == [Self.granting])
        }
    }

    @Test("of two processes one sends, and the other takes over")
    func twoProcesses() async throws {
        try await Self.with { bundle in
            _ = try await bundle.backend.put(Self.declining, to: bundle.path())
            try await Self.withSender(bundle) { first in
                bundle.store.api.inject(.error(5_000_000), requests: 4)
                #expect(try await first.round(at: bundle.now) == 1)
                await bundle.advance(by: .seconds(600))
                try await Self.withSender(bundle) { second in
                    let before = try await second.round(at: bundle.now)
                    await first.leadership.release()
                    let after = try await second.round(at: bundle.now)

                    #expect(before == 0 && after == 1)
                }
            }
            #expect(bundle.sent.count == 1)
        }
    }

    // MARK: - Apple's rules

    @Test("what is sent for any kind of product is accepted by the store, and what is not would be refused")
    func rules() async throws {
        try await DeliveryBundle.with(stories: [.oneTimePurchase, .renewals]) { bundle in
            await bundle.pass(to: Simulation.end)
            let types: [Product.Kind: String] = [
                .autoRenewable: "Auto-Renewable Subscription", .consumable: "Consumable",
                .nonConsumable: "Non-Consumable",
            ]
            var purchases: [Product.Kind: String] = [:]
            for story in 0..<2 {
                for account in bundle.accounts(ofStory: story) {
                    for purchase in account.subscriptions.flatMap(\.purchases) {
                        purchases[purchase.product.kind] = purchase.transactionId
                    }
                }
            }
            #expect(purchases.count == 3)
            var answers = 0
            for (kind, id) in purchases.sorted(by: { $0.value < $1.value }) {
                let purchase = RefundRequest.Purchase(
                    transactionId: id, originalTransactionId: id, productId: nil, productType: types[kind],
                    appAccountToken: nil, isAdvancedCommerce: false)
                let unchecked = RefundRequest.Purchase(
                    transactionId: id, originalTransactionId: id, productId: nil, productType: nil,
                    appAccountToken: nil, isAdvancedCommerce: false)
                for content in Self.contents {
                    let request = try ConsumptionRequest(content, about: unchecked)
                    let outcome = await bundle.client.ask(request, app: bundle.app, host: .production)
                    var isAccepted = false
                    if case .answered = outcome { isAccepted = true }
                    #expect(isAccepted == (content.problem(of: purchase.productType) == nil), "\(kind) \(content)")
                    answers += 1
                }
            }
            #expect(answers == 3 * Self.contents.count && Self.contents.count == 56)
            #expect(bundle.store.api.consumptions.count < answers)
        }
    }

    /// Everything that can be said about a purchase of some kind.
    private static let contents: [ConsumptionAnswer] = {
        var contents: [ConsumptionAnswer] = []
        for delivery in ConsumptionAnswer.Delivery.allCases {
            for percentage in [nil, 0, 1, 50_000, 99_999, 100_000] as [Int32?] {
                for preference in [nil] + ConsumptionAnswer.RefundPreference.allCases.map(Optional.some) {
                    let content = try? ConsumptionAnswer(
                        isSampleProvided: false, delivery: delivery, percentage: percentage, preference: preference)
                    if let content { contents.append(content) }
                }
            }
        }
        return contents
    }()
}
