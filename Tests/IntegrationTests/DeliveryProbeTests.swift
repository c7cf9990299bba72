import AppStore
import EventLog
import Simulation
import StoreClient
import TestSupport
import Testing

@Suite("A test notification tells which step of its way does not work")
struct DeliveryProbeTests {
    private static func run(
        _ bundle: DeliveryBundle, _ verifier: NotificationVerifier? = nil
    ) async throws -> (steps: [String], problem: DeliveryProbe.Problem?) {
        var steps: [String] = []
        let problem = try await bundle.probe(verifier).run(bundle.app, on: .production, within: .seconds(5)) {
            steps.append($0.rawValue)
        }
        return (steps, problem)
    }

    @Test("all steps work")
    func works() async throws {
        try await DeliveryBundle.with { bundle in
            let (steps, problem) = try await Self.run(bundle)

            #expect(problem == nil, "\(String(describing: problem))")
            #expect(steps == ["request", "attempt", "connection", "TLS", "route", "signature", "log"])
        }
    }

    @Test(
        "the result of Apple's attempt names the step",
        arguments: [
            (SendAttempt.Result.noResponse, "connection"), (.socketIssue, "connection"),
            (.prematureClose, "connection"),
            (.tlsIssue, "TLS"), (.timedOut, "route"), (.circularRedirect, "route"), (.unsupportedCharset, "route"),
            (.invalidResponse, "route"), (.unsuccessfulResponse, "route"), (.other, "route"),
            (.undocumented, "route"),
        ])
    func attempts(_ result: SendAttempt.Result, _ step: String) async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.lost(result))
            let (steps, problem) = try await Self.run(bundle)

            #expect(problem?.step.rawValue == step && problem?.cause == .delivery)
            #expect(problem?.text.hasSuffix("(Apple: \(result.rawValue))") == true)
            #expect(steps == Array(["request", "attempt", "connection", "TLS", "route"].prefix { $0 != step }))
        }
    }

    @Test("an attempt that does not end is waited for in vain")
    func noAttempt() async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.neverEnding)
            let (steps, problem) = try await Self.run(bundle)

            #expect(problem?.step == .attempt && problem?.cause == .unavailable)
            #expect(steps == ["request"])
        }
    }

    @Test("a key that is rejected, a missing URL and a store that does not answer are problems of the request")
    func requests() async throws {
        try await DeliveryBundle.with({ $0.isReleased = false }) { bundle in
            let (steps, problem) = try await Self.run(bundle)
            #expect(problem?.step == .request && problem?.cause == .configuration && steps.isEmpty)
            #expect(problem?.text.contains("rejects the key") == true)
        }
        try await DeliveryBundle.with({ $0.sending = nil }) { bundle in
            let (_, problem) = try await Self.run(bundle)
            #expect(problem?.step == .request && problem?.cause == .configuration)
            #expect(
                problem?.text
                    == "App Store Connect has no notification URL for the production environment of the app")
        }
        try await DeliveryBundle.with { bundle in
            bundle.store.api.inject(.overloaded, requests: 10)
            let (_, problem) = try await Self.run(bundle)
            #expect(problem?.step == .request && problem?.cause == .unavailable)
        }
    }

    @Test("a server without the root, and one of another app, refuse the signature")
    func signatures() async throws {
        try await DeliveryBundle.with(roots: .apple) { bundle in
            let (steps, problem) = try await Self.run(bundle)
            #expect(problem?.step == .signature && problem?.cause == .configuration, "\(String(describing: problem))")
            #expect(steps == ["request", "attempt", "connection", "TLS"])
        }
        let other = App(bundleId: DeliveryBundle.bundleId, appAppleId: 1, serverAPIKey: try DeliveryBundle.key())
        try await DeliveryBundle.with(app: other) { bundle in
            let (_, problem) = try await Self.run(bundle)
            #expect(problem?.step == .signature)
            #expect(problem?.text == "the App Store id (appAppleId) is not that of the app")
        }
    }

    @Test("a server that accepts the notification and stores it elsewhere is told by the log")
    func otherServer() async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.lost(.success))
            let (steps, problem) = try await Self.run(bundle)

            #expect(problem?.step == .log && problem?.cause == .delivery)
            #expect(steps == ["request", "attempt", "connection", "TLS", "route", "signature"])
        }
    }
}
