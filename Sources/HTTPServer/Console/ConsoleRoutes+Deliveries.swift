import Console
import EventLog
import Hummingbird
import Outbound
import Readers
import Subscriptions

extension ConsoleRoutes {
    func deliveries(_ visit: ConsoleRequest) async throws -> Outcome {
        let stream = try visit.someStream()
        let endpoints = try await endpoints.store.list().filter {
            $0.endpoint.stream.app == stream.app && $0.endpoint.stream.environment.rawValue == stream.environment
        }
        return .page(DeliveriesPage(endpoints: endpoints.map(DeliveryEndpoint.init), address: visit.address))
    }

    func delivery(_ visit: ConsoleRequest, id: String) async throws -> Outcome {
        let messages = try visit.query.number("messages")
        let notice: DeliveryPage.Notice? =
            switch try visit.query.text("done") {
            case "disabled": .disabled
            case "enabled": .enabled
            case "replayed": messages.map(DeliveryPage.Notice.replayed)
            default: nil
            }
        return .page(try await page(of: id, notice: notice, address: Self.withoutNotice(visit.address)))
    }

    private static func withoutNotice(_ address: Address) -> Address {
        address.with("done", nil).with("messages", nil)
    }

    private func page(of id: String, notice: DeliveryPage.Notice?, address: Address) async throws -> DeliveryPage {
        let status = try await endpoints.find(id)
        let attempts = try await endpoints.store.attempts(of: id, limit: Limits.attemptsMax)
        return DeliveryPage(
            endpoint: DeliveryEndpoint(status),
            attempts: attempts.map {
                DeliveryPage.Attempt(
                    at: $0.at, number: $0.number, result: $0.result, status: $0.status, milliseconds: $0.milliseconds)
            }, notice: notice, address: address)
    }

    // MARK: - Changes

    func addEndpoint(_ request: Request, _ session: ConsoleSession) async throws -> Response {
        try await changing("endpoints", request, session, at: Address("deliveries")) { form, visit in
            let (_, key) = try visit.someStreamKey()
            var wish = EndpointAdmin.Wish(
                stream: key, url: try form.text("url") ?? "")
            if let kinds = try form.text("kinds") {
                wish.kinds = kinds.split { $0 == "," || $0 == " " }.map(String.init)
            }
            if let signature = try form.text("signature").flatMap(Endpoint.Signature.init(rawValue:)) {
                wish.signature = signature
            }
            let added = try await endpoints.add(wish)
            let id = added.status.endpoint.id
            let page = try await page(
                of: id, notice: .added(key: added.key), address: visit.frame.here(Address("deliveries", id)))
            return ConsoleResponse.html(.ok, visit.frame.html(page))
        }
    }

    func changeEndpoint(_ request: Request, _ session: ConsoleSession, id: String) async throws -> Response {
        try await changing("endpoints", request, session, at: Address("deliveries", id)) { form, visit in
            let own = visit.frame.here(Address("deliveries", id))
            switch try form.text("do") {
            case "test":
                let tested = try await endpoints.test(id)
                let notice = DeliveryPage.Notice.tested(
                    result: tested.outcome.class.rawValue, status: tested.outcome.status,
                    milliseconds: tested.milliseconds)
                return ConsoleResponse.html(
                    .ok, visit.frame.html(try await page(of: id, notice: notice, address: own)))
            case "disable":
                _ = try await endpoints.disable(id)
                return ConsoleResponse.seeOther(own.with("done", "disabled").text)
            case "enable":
                _ = try await endpoints.enable(id)
                return ConsoleResponse.seeOther(own.with("done", "enabled").text)
            case "replay-after":
                return try await replay(id, .after(try Self.given("after", form.number("after"))), own)
            case "replay-failed":
                return try await replay(
                    id,
                    .failedSince(
                        try Self.given("failedSince", form.instant("failedSince", label: "Given up at or after"))), own)
            default:
                throw ConsoleProblem(.badRequest, "Bad request", "The page has no form of this name.")
            }
        }
    }

    /// An empty field must not stand for everything.
    private static func given<Value>(_ name: String, _ value: Value?) throws(ConsoleProblem) -> Value {
        guard let value else { throw ConsoleProblem(.badRequest, "Bad request", "\(name) is missing.") }
        return value
    }

    private func replay(_ id: String, _ replay: EndpointAdmin.Replay, _ own: Address) async throws -> Response {
        let messages = try await endpoints.replay(id, replay)
        return ConsoleResponse.seeOther(own.with("done", "replayed").with("messages", "\(messages)").text)
    }
}

extension DeliveryEndpoint {
    init(_ status: EndpointStatus) {
        let endpoint = status.endpoint
        let state: State =
            switch endpoint.state {
            case .disabled(let reason, let at): .disabled(reason: reason.rawValue, since: at)
            case .active: status.failingSince.map { .failing(since: $0) } ?? .active
            }
        let scheme = endpoint.url.hasPrefix("http://") ? "http" : "https"
        let host = (try? EndpointURL(endpoint.url, allowsPrivate: true))?.host ?? "…"
        self.init(
            id: endpoint.id, isForward: endpoint.purpose == .events, receiver: "\(scheme)://\(host)",
            kinds: endpoint.kinds, signature: endpoint.signature.rawValue, state: state, number: status.number,
            head: status.head, waiting: status.waiting, exhausted: status.exhausted,
            succeededAt: status.succeededAt)
    }
}
