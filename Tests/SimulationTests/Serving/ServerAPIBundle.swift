import Encoding
import Foundation
import Simulation
import Subscriptions
import TestSupport
import Testing

/// A simulated store of an app in production, with a client of its App Store Server API.
struct ServerAPIBundle {
    let simulation: Simulation
    let store: SimulatedStore
    let client: HTTPClient

    var account: SimulatedAccount { simulation.storyteller.accounts(ofStory: 0)[0] }
    var subscription: SimulatedSubscription { account.subscriptions[0] }
    var originalTransactionId: String { subscription.originalTransactionId }

    static func makeSimulation(
        _ stories: [Story], count: Int, _ environment: Subscriptions.Environment = .production
    ) throws -> Simulation {
        var settings = Simulation.Settings(
            app: SimulatedApp(
                bundleId: APITokenShape.bundleId, appAppleId: 1_400_000_001, environment: environment))
        settings.stories = stories
        settings.subscriptions = count
        return try #require(Simulation(settings))
    }

    static func with(
        _ stories: [Story] = [.renewals], count: Int = 1, environment: Subscriptions.Environment = .production,
        faults: Double = 0, _ settings: SimulatedServerAPI.Settings = .init(),
        _ test: (ServerAPIBundle) async throws -> Void
    ) async throws {
        let simulation = try makeSimulation(stories, count: count, environment)
        let store = SimulatedStore(simulation, faults: faults, api: settings)
        try await store.served { client in
            try await test(ServerAPIBundle(simulation: simulation, store: store, client: client))
        }
    }

    /// - Parameter path: After `/inApps/`.
    func call(
        _ method: String, _ path: String, _ body: String? = nil,
        host: Subscriptions.Environment? = nil, token: APITokenShape = .init()
    ) async throws -> HTTPAnswer {
        let host = host ?? simulation.settings.app.environment
        return try await client.send(
            method, "/\(host.rawValue)/inApps/\(path)",
            headers: ["Authorization": "Bearer \(try token.text(at: store.now))"], body: body.map { Array($0.utf8) })
    }

    /// The code of an answer that is an error.
    func errorCode(
        _ method: String, _ path: String, _ body: String? = nil, host: Subscriptions.Environment? = nil
    ) async throws -> Int? {
        let answer = try await call(method, path, body, host: host)
        let code = answer.json["errorCode"] as? Int
        if let code { #expect(answer.status == code / 10_000 && answer.json["errorMessage"] is String) }
        return code
    }
}

extension HTTPAnswer {
    /// The payload of the signed text that is a member of the JSON object.
    func payload(_ member: String) throws -> [String: Any] { try signedPayload(#require(json[member] as? String)) }

    /// The payloads of the signed texts in an array that is a member of the JSON object.
    func payloads(_ member: String = "signedTransactions") throws -> [[String: Any]] {
        try #require(json[member] as? [String]).map { try signedPayload($0) }
    }

    var transactionIds: [String] {
        get throws { try payloads().compactMap { $0["transactionId"] as? String } }
    }
}

/// The payload of a signed text, without verification.
func signedPayload(_ text: String) throws -> [String: Any] {
    let segments = text.split(separator: ".")
    try #require(segments.count == 3)
    let bytes = try #require(Base64.decode(Array(segments[1].utf8)[...], .url))
    return try #require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
}

extension [String: Any] {
    /// A date, in milliseconds since 1970.
    func milliseconds(_ key: String) -> Int64? { (self[key] as? Int).map { Int64($0) } }
}
