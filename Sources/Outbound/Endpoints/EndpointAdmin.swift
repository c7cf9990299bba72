import Encoding
import EventLog
import StandardWebhooks
import Subscriptions

/// What operators do with endpoints, by command and over HTTP.
package struct EndpointAdmin: Sendable {
    package let store: EndpointStore
    private let keyFile: WebhookKeyFile?
    private let settings: EndpointClientSettings
    private let apps: Set<String>
    private let now: @Sendable () -> Instant

    /// - Parameters:
    ///   - keyFile: Nil if no file for keys is configured.
    ///   - apps: The configured apps. Those with events are known, too.
    package init(
        store: EndpointStore, keyFile: WebhookKeyFile?, settings: EndpointClientSettings, apps: Set<String>,
        now: @escaping @Sendable () -> Instant
    ) {
        self.store = store
        self.keyFile = keyFile
        self.settings = settings
        self.apps = apps
        self.now = now
    }

    /// What is asked for.
    package struct Wish: Sendable {
        package var stream: StreamKey
        package var url: String
        /// Raw values of ``Change/Kind``; nil for all.
        package var kinds: [String]?
        package var signature = Endpoint.Signature.v1a
        /// Nil for the present end of the feed.
        package var after: Int64?

        package init(stream: StreamKey, url: String) {
            self.stream = stream
            self.url = url
        }
    }

    /// An endpoint, and the secret or public key with which its receiver verifies.
    package struct Added: Sendable {
        package let status: EndpointStatus
        package let key: String
    }

    // MARK: Adding

    /// Adds an endpoint.
    ///
    /// - Parameter request: What a repeated request has, too: it gets the endpoint that the first one added. Nil for one that
    ///   adds another endpoint each time.
    package func add(_ wish: Wish, _ request: RepeatableRequest? = nil) async throws(EndpointRefusal) -> Added {
        do throws(EndpointURL.Malformed) {
            _ = try EndpointURL(wish.url, allowsPrivate: settings.allowsPrivate)
        } catch {
            throw .malformed(error.description, field: "url")
        }
        if let kinds = wish.kinds {
            let all = Change.Kind.allCases.map(\.rawValue)
            guard !kinds.isEmpty, kinds.allSatisfy(all.contains), Set(kinds).count == kinds.count else {
                throw .malformed("kinds must be different ones of \(all.joined(separator: ", "))", field: "kinds")
            }
        }
        guard wish.signature != .none else { throw .malformed("signature must be v1 or v1a", field: "signature") }
        if let after = wish.after, after < 0 { throw .malformed("after must be at least 0", field: "after") }
        if !apps.contains(wish.stream.app) {
            guard try await reading({ () async throws(ReadError) in try await store.hasStream(of: wish.stream.app) })
            else { throw .unknownApp }
        }
        let id: String
        if let request {
            id = request.id(of: wish)
            let all = try await reading({ () async throws(ReadError) in try await store.list() })
            if let known = all.first(where: { $0.endpoint.id.hasPrefix(request.idPrefix) }) {
                guard known.endpoint.id == id else { throw .requestKeyUsed }
                return Added(status: known, key: try makeKey(of: known.endpoint))
            }
        } else {
            var random = SystemRandomNumberGenerator()
            id = Endpoint.makeId(using: &random)
        }
        let endpoint = Endpoint(
            id: id, purpose: .changes, stream: wish.stream, url: wish.url, kinds: wish.kinds,
            signature: wish.signature, createdAt: now())
        let key = try makeKey(of: endpoint)
        switch try await reading({ () async throws(ReadError) in try await store.add(endpoint, after: wish.after) }) {
        case .added, .exists: break
        case .full: throw .full
        }
        return Added(status: try await find(id), key: key)
    }

    private func makeKey(of endpoint: Endpoint) throws(EndpointRefusal) -> String {
        guard let keyFile else { throw .noKeyFile }
        let now = now()
        do throws(WebhookKeyFile.Problem) {
            if endpoint.signature == .v1 {
                return try keyFile.change { $0.secret(ofNew: endpoint.id, at: now) }
            }
            try keyFile.createServerKey(at: now)
            return try keyFile.read().published(at: now).first ?? ""
        } catch {
            throw .keys(error)
        }
    }

    // MARK: Changing

    package func find(_ id: String) async throws(EndpointRefusal) -> EndpointStatus {
        guard let found = try await reading({ () async throws(ReadError) in try await store.list(id) }).first else {
            throw .unknown
        }
        return found
    }

    package func disable(_ id: String) async throws(EndpointRefusal) -> EndpointStatus {
        let now = now()
        let isKnown = try await reading({ () async throws(ReadError) in
            try await store.disable(id, for: .operator, at: now)
        })
        guard isKnown else { throw .unknown }
        return try await find(id)
    }

    package func enable(_ id: String) async throws(EndpointRefusal) -> EndpointStatus {
        guard try await reading({ () async throws(ReadError) in try await store.enable(id) }) else { throw .unknown }
        return try await find(id)
    }

    /// What is delivered again.
    package enum Replay: Sendable {
        /// One message.
        case one(Int64)
        /// Everything after a place.
        case after(Int64)
        /// What was given up at an instant or later.
        case failedSince(Instant)
    }

    /// - Returns: How many messages are delivered again.
    package func replay(_ id: String, _ replay: Replay) async throws(EndpointRefusal) -> Int64 {
        let found = try await find(id)
        switch replay {
        case .one(let number):
            guard number > 0, number <= found.number else {
                throw .malformed("number must be from 1 to \(found.number), the last one delivered", field: "number")
            }
            guard try await reading({ () async throws(ReadError) in try await store.replay(id, number: number) }) else {
                throw .unknown
            }
            return 1
        case .after(let number):
            guard number >= 0, number <= found.head else {
                throw .malformed("after must be from 0 to \(found.head), the end of the feed", field: "after")
            }
            guard try await reading({ () async throws(ReadError) in try await store.replay(id, after: number) }) else {
                throw .unknown
            }
            return found.head - number
        case .failedSince(let instant):
            guard
                let count = try await reading({ () async throws(ReadError) in
                    try await store.replayExhausted(id, since: instant)
                })
            else { throw .unknown }
            return Int64(count)
        }
    }

    // MARK: Keys

    /// Replaces the secret of an endpoint; the old one also signs for a day.
    ///
    /// - Parameter request: See ``WebhookKeys/rotate(_:at:request:)``.
    /// - Returns: The new secret.
    package func rotate(_ id: String, _ request: RepeatableRequest? = nil) async throws(EndpointRefusal) -> String {
        guard try await find(id).endpoint.signature == .v1 else { throw .noSecret }
        guard let keyFile else { throw .noKeyFile }
        let now = now()
        do throws(WebhookKeyFile.Problem) {
            return try keyFile.change { $0.rotate(id, at: now, request: request) }
        } catch {
            throw .keys(error)
        }
    }

    /// Replaces the key of the server; the old one also signs for a day.
    ///
    /// - Parameter request: See ``WebhookKeys/rotate(_:at:request:)``.
    /// - Returns: The new public key.
    package func rotateServerKey(_ request: RepeatableRequest? = nil) throws(EndpointRefusal) -> String {
        guard let keyFile else { throw .noKeyFile }
        let now = now()
        do throws(WebhookKeyFile.Problem) {
            return try keyFile.change { $0.rotateServer(at: now, request: request) } ?? ""
        } catch {
            throw .keys(error)
        }
    }

    /// The public keys of the server, the newest first. Empty if it has none.
    package func publicKeys() throws(EndpointRefusal) -> [String] {
        do throws(WebhookKeyFile.Problem) {
            return try keyFile?.read().published(at: now()) ?? []
        } catch {
            throw .keys(error)
        }
    }

    // MARK: Testing

    /// What came of a test message.
    package struct Tested: Sendable {
        package let id: String
        package let outcome: AttemptOutcome
        package let milliseconds: Int
    }

    /// Sends a test message from this process, once.
    package func test(_ id: String) async throws(EndpointRefusal) -> Tested {
        let endpoint = try await find(id).endpoint
        guard endpoint.purpose == .changes else { throw .isForward }
        let now = now()
        let keys: [SigningKey]
        do throws(WebhookKeyFile.Problem) {
            keys = try keyFile?.signing(endpoint, at: now) ?? []
        } catch {
            throw .keys(error)
        }
        guard !keys.isEmpty else { throw .noKey }
        let message = OutboundMessage.test(of: endpoint, at: now)
        let signed = WebhookHeaders(signing: message.body, id: message.id, at: now.foundationDate, with: keys)
        let client = EndpointClient(url: endpoint.url, settings, now: self.now)
        let start = ContinuousClock.now
        let outcome = await client.post(
            OutboundRequest(headers: [("content-type", "application/json")] + signed.fields, body: message.body))
        let duration = ContinuousClock.now - start
        await client.shutDown()
        return Tested(
            id: message.id, outcome: outcome ?? AttemptOutcome(.timeout),
            milliseconds: Int(duration / .milliseconds(1)))
    }

    private func reading<Value>(
        _ read: () async throws(ReadError) -> Value
    ) async throws(EndpointRefusal) -> Value {
        do throws(ReadError) {
            return try await read()
        } catch {
            throw .database(error)
        }
    }
}

/// Why something is not done with an endpoint.
package enum EndpointRefusal: Error, Sendable, CustomStringConvertible {
    case unknown
    case unknownApp
    /// What was asked for is not valid; `field` is the name of its part.
    case malformed(String, field: String)
    case full
    /// The idempotency key is of a request for another endpoint.
    case requestKeyUsed
    case noKeyFile
    case noKey
    /// The endpoint is signed for with the key of the server.
    case noSecret
    /// The apps file decides about it.
    case isForward
    case keys(WebhookKeyFile.Problem)
    case database(ReadError)

    package var description: String {
        switch self {
        case .unknown: "no endpoint has this id"
        case .unknownApp: "no such app: it is not configured here, and has no events"
        case .malformed(let problem, _): problem
        case .full: "there are \(Limits.endpointsMax) endpoints already"
        case .requestKeyUsed: "the key is of another request: expected a new one for a new request"
        case .noKeyFile: "no file for webhook keys is configured: set --webhook-keys or SUBLEDGER_WEBHOOK_KEYS"
        case .noKey: "no key signs for the endpoint on this machine: see SUBLEDGER_WEBHOOK_KEYS"
        case .noSecret: "the endpoint has no secret of its own: the key of the server signs for it"
        case .isForward: "the endpoint passes notifications on, and gets no test messages"
        case .keys(let problem): problem.description
        case .database(let error): error.description
        }
    }
}
