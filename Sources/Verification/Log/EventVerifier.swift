import AppStore
import Encoding
import EventLog
import PlayStore
import Subscriptions

/// Checks a stored event by decoding and verifying its body again.
package struct EventVerifier: Sendable {
    let stream: StreamKey
    let signatures: SignatureVerifier

    package init(stream: StreamKey, signatures: SignatureVerifier) {
        self.stream = stream
        self.signatures = signatures
    }

    package struct Result: Sendable {
        /// Nil if the event is valid.
        package private(set) var problem: String?
        /// The facts of the body as JSON text, in the form in which the log stores them. Nil if the body has none.
        package private(set) var facts: [UInt8]?
        /// The defects of the body as JSON text, in the form in which the log stores them. Nil if there are none.
        package private(set) var defects: [UInt8]?

        /// A valid event, with the columns that the database compares.
        init(_ event: Event) {
            var writer = JSONWriter()
            writer.object { event.writeFacts(to: &$0) }
            facts = writer.bytes
            guard !event.defects.isEmpty else { return }
            writer = JSONWriter()
            writer.array(event.defects) { $1.write(to: &$0) }
            defects = writer.bytes
        }

        init(problem: String? = nil) {
            self.problem = problem
        }

        /// Whether facts and defects are stored with the event in the same text, apart from the order of members.
        func areStored(with event: AuditedEvent) -> Bool {
            Self.isSame(facts, event.derived?.facts) && Self.isSame(defects, event.derived?.defects)
        }

        private static func isSame(_ fresh: [UInt8]?, _ stored: [UInt8]?) -> Bool {
            guard let fresh, let stored else { return fresh == nil && stored == nil }
            guard let left = try? JSONDocument(stored), let right = try? JSONDocument(fresh) else { return false }
            return left.root.hasSameContent(as: right.root)
        }
    }

    package func check(_ stored: AuditedEvent) async -> Result {
        if let column = stored.brokenTime { return Result(problem: "\(column) is not a whole number of milliseconds") }
        let body: [UInt8]
        do throws(DamagedBody) {
            body = try stored.body()
        } catch {
            return Result(problem: error.description)
        }
        switch EventSource(rawValue: stored.source) {
        case .backend: return checkStatement(body, stored, .backend)
        case .operator: return checkStatement(body, stored, .operator)
        case .appleReceipt: return checkAnswer(body, stored)
        case .appleDevice: return await checkSigned(body, stored, .appleDevice)
        case .appleAPI: return await checkSigned(body, stored, .appleAPI)
        case .googleRTDN: return checkPush(body, stored)
        case .googleAPI: return checkGoogleStatement(body, stored, .googleAPI)
        case .googleDevice: return checkGoogleStatement(body, stored, .googleDevice)
        case .googleVoided: return checkGoogleStatement(body, stored, .googleVoided)
        case .appleHistory: return await checkNotification(body, stored, .appleHistory)
        case .appleV1, .appleV2, nil: return await checkNotification(body, stored)
        }
    }

    /// - Parameter source: Of a signed notification.
    private func checkNotification(
        _ body: [UInt8], _ stored: AuditedEvent, _ source: EventSource = .appleV2
    ) async -> Result {
        let notification: AppleNotification
        do throws(UndecodableBody) {
            notification = try AppleNotification(decoding: body)
        } catch {
            return Result(problem: "body cannot be decoded: \(error)")
        }
        let event = notification.event(receivedAt: stored.receivedAt, source: source)
        if let column = differingColumn(stored, event) {
            return Result(problem: "\(column) does not match the body")
        }
        guard event.environment == stream.environment, event.app.map({ $0 == stream.app }) ?? true else {
            return Result(problem: "app or environment of the body does not match the stream")
        }
        guard case .v2(let signed) = notification else {
            return stored.isUnsigned ? Result(event) : Result(problem: "chain_id does not match the body")
        }
        do throws(Refusal) {
            guard try await verify(signed, stored) else {
                return Result(problem: "chain_id does not match the body")
            }
        } catch {
            return Result(problem: "body fails verification: \(error)")
        }
        return Result(event)
    }

    /// Checks what a backend or an operator stated: the body is the canonical JSON and not signed.
    private func checkStatement(_ body: [UInt8], _ stored: AuditedEvent, _ source: EventSource) -> Result {
        let json = try? JSONDocument(body).root
        let (environment, app, time) = (stream.environment, stream.app, stored.receivedAt)
        let canonical: [UInt8]
        let event: Event
        if let json, GrantStatement.isGrant(json) {
            guard let grant = GrantStatement(body: json) else {
                return Result(problem: "body cannot be decoded: expected a grant")
            }
            canonical = grant.canonicalText
            event = grant.event(source: source, environment: environment, app: app, receivedAt: time)
        } else if let json, SeatStatement.isSeat(json) {
            guard let seat = try? SeatStatement(body: json) else {
                return Result(problem: "body cannot be decoded: expected a seat")
            }
            canonical = seat.canonicalText
            event = seat.event(environment: environment, app: app, receivedAt: time)
        } else if source == .backend {
            guard let json, let links = try? LinkStatement(json: json) else {
                return Result(problem: "body cannot be decoded: expected customer links")
            }
            canonical = links.canonicalText
            event = links.event(environment: environment, app: app, receivedAt: time)
        } else if let json, MonthClosing.isClosing(json), let closing = try? MonthClosing(json: json) {
            canonical = closing.canonicalText
            event = closing.event(environment: environment, app: app, receivedAt: time)
        } else if let json, ErasureStatement.isErasure(json), let erasure = try? ErasureStatement(json: json) {
            canonical = erasure.canonicalText
            event = erasure.event(environment: environment, app: app, receivedAt: time)
        } else if let json, let write = try? StoreWrite(json: json) {
            canonical = write.canonicalText
            event = write.event(environment: environment, app: app, receivedAt: time)
        } else {
            return Result(
                problem: "body cannot be decoded: expected a request of an operator, a closed month or an erasure")
        }
        guard canonical == body else { return Result(problem: "body is not in canonical form") }
        if let column = differingColumn(stored, event) {
            return Result(problem: "\(column) does not match the body")
        }
        return stored.isUnsigned ? Result(event) : Result(problem: "chain_id does not match the body")
    }

    /// Checks an answer of verifyReceipt, which is not signed.
    private func checkAnswer(_ body: [UInt8], _ stored: AuditedEvent) -> Result {
        let answer: StoredAnswer
        do throws(UnreadableAnswer) {
            answer = try StoredAnswer(decoding: body)
        } catch {
            return Result(problem: "body cannot be decoded: \(error)")
        }
        guard answer.isFact else { return Result(problem: "body is not an answer that can be a fact") }
        let event = answer.event(
            app: stream.app, environment: stream.environment, receivedAt: stored.receivedAt)
        if let column = differingColumn(stored, event) {
            return Result(problem: "\(column) does not match the body")
        }
        guard event.app == stream.app, answer.answer.environment ?? stream.environment == stream.environment else {
            return Result(problem: "app or environment of the body does not match the stream")
        }
        return stored.isUnsigned ? Result(event) : Result(problem: "chain_id does not match the body")
    }

    /// Checks signed data of a device, or of an answer of the App Store Server API.
    private func checkSigned(_ body: [UInt8], _ stored: AuditedEvent, _ source: EventSource) async -> Result {
        do throws(StatementRefusal) {
            guard let statement = try SignedStatement(decoding: body, source: source),
                statement.evidence.bytes == body
            else {
                return Result(problem: "body cannot be decoded: expected signed data")
            }
            let event = statement.event()
            if let column = differingColumn(stored, event) {
                return Result(problem: "\(column) does not match the body")
            }
            // Some old purchases name no app, which the check below accepts of answers only.
            guard event.environment == stream.environment, event.app.map({ $0 == stream.app }) ?? true else {
                return Result(problem: "app or environment of the body does not match the stream")
            }
            // Apple does not sign data of local environments.
            let chains =
                stream.environment.isLocal
                ? [] : try await signatures.verify(statement, fallback: stored.receivedAt)
            try AppExpectation(bundleId: stream.app, environments: [stream.environment]).check(statement)
            guard stored.hasChain(chains.first) else { return Result(problem: "chain_id does not match the body") }
            return Result(event)
        } catch {
            return Result(problem: "body fails verification: \(error)")
        }
    }

    /// Checks a push of Pub/Sub, whose origin was verified when it arrived and is not signed.
    private func checkPush(_ body: [UInt8], _ stored: AuditedEvent) -> Result {
        let message: PushMessage
        do throws(UndecodablePush) {
            message = try PushMessage(decoding: body)
        } catch {
            return Result(problem: "body cannot be decoded: \(error)")
        }
        return checkUnsigned(message.event(), stored)
    }

    /// Checks an answer of the Google Play Developer API, which is not signed.
    private func checkGoogleStatement(_ body: [UInt8], _ stored: AuditedEvent, _ source: EventSource) -> Result {
        do throws(UnreadableJSON) {
            let event = try PlayStatement.event(
                decoding: body, source: source, environment: stream.environment, answeredAt: stored.receivedAt)
            return checkUnsigned(event, stored)
        } catch {
            return Result(problem: "body cannot be decoded: \(error)")
        }
    }

    private func checkUnsigned(_ event: Event, _ stored: AuditedEvent) -> Result {
        if let column = differingColumn(stored, event) {
            return Result(problem: "\(column) does not match the body")
        }
        guard event.environment == stream.environment, event.app.map({ $0 == stream.app }) ?? true else {
            return Result(problem: "app or environment of the body does not match the stream")
        }
        return stored.isUnsigned ? Result(event) : Result(problem: "chain_id does not match the body")
    }

    /// Returns the first column that differs. The database compares facts, since `jsonb` defines their equality.
    private func differingColumn(_ stored: AuditedEvent, _ event: Event) -> String? {
        if stored.source != event.source.rawValue { return "source" }
        if stored.dedupeKey != event.dedupeKey { return "dedupe_key" }
        guard let derived = stored.derived else { return nil }
        if derived.type != event.type { return "type" }
        if derived.subtype != event.subtype { return "subtype" }
        if derived.kind != event.kind.rawValue { return "kind" }
        if derived.occurredAt != event.occurredAt { return "occurred_at" }
        if derived.fingerprint != event.fingerprint { return "fingerprint" }
        return nil
    }

    /// Verifies signatures as of the signing time, so that certificates may have expired since.
    ///
    /// - Returns: True if the stored chain is the one that signed the event. Events of earlier versions store none.
    private func verify(_ notification: V2Notification, _ stored: AuditedEvent) async throws(Refusal) -> Bool {
        // Apple does not sign data of local environments.
        let chains =
            stream.environment.isLocal
            ? [] : try await signatures.verify(notification, fallback: stored.receivedAt)
        try AppExpectation(bundleId: stream.app, environments: [stream.environment]).check(notification)
        return stored.isUnsigned || stored.hasChain(chains.first)
    }
}

extension AuditedEvent {
    /// True if no certificate chain is stored with the event.
    fileprivate var isUnsigned: Bool { chainId == nil && revocation == nil }

    /// Whether the stored chain is this one; without one, whether none is stored.
    fileprivate func hasChain(_ chain: VerifiedChain?) -> Bool {
        guard let chain else { return isUnsigned }
        return chainId == chain.certificates.id.sha256
            && revocation.map { SigningChain.Revocation(rawValue: $0) != nil } ?? false
    }
}
