import AppStore
import EventLog
import Subscriptions

/// Tells what is wrong with a stored event, by reading its body anew.
struct EventCheck: Sendable {
    let stream: StreamKey
    let signatures: SignatureVerifier

    struct Result: Sendable {
        /// Nil if nothing is.
        var problem: String?
        /// What the body says, as the log stores it: JSON text. Nil if it says nothing.
        var facts: [UInt8]?
        /// What of the body could not be read, as the log stores it: JSON text. Nil if all could.
        var defects: [UInt8]?

        /// Nothing is wrong, as far as the columns go that the database compares.
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
    }

    func check(_ stored: AuditedEvent) async -> Result {
        let result = await checkBody(stored)
        guard result.problem == nil, !stored.isAsSealed else { return result }
        return Result(problem: "received_at, chain_id or revocation is not what was sealed")
    }

    private func checkBody(_ stored: AuditedEvent) async -> Result {
        if let column = stored.brokenTime { return Result(problem: "\(column) is not in whole milliseconds") }
        let body: [UInt8]
        do throws(DamagedBody) {
            body = try stored.body()
        } catch {
            return Result(problem: error.description)
        }
        if stored.source == Source.backend.rawValue { return checkStatement(body, stored) }
        let notification: AppleNotification
        do throws(UndecodableBody) {
            notification = try AppleNotification(decoding: body)
        } catch {
            return Result(problem: "body cannot be decoded: \(error)")
        }
        let event = notification.event(receivedAt: stored.receivedAt)
        if let column = differingColumn(stored, event) {
            return Result(problem: "\(column) is not what the body says")
        }
        guard event.environment == stream.environment, event.app.map({ $0 == stream.app }) ?? true else {
            return Result(problem: "body is of another app or environment than its stream")
        }
        guard case .v2(let signed) = notification else {
            return stored.isUnsigned ? Result(event) : Result(problem: "chain_id is not what the body says")
        }
        do throws(Refusal) {
            guard try await verify(signed, stored) else {
                return Result(problem: "chain_id is not what the body says")
            }
        } catch {
            return Result(problem: "body does not verify: \(error)")
        }
        return Result(event)
    }

    /// A backend's statement: its body is the canonical text, and nobody signs it.
    private func checkStatement(_ body: [UInt8], _ stored: AuditedEvent) -> Result {
        guard let json = try? JSONDocument(body).root, let statement = try? LinkStatement(json: json) else {
            return Result(problem: "body cannot be decoded: it states no links")
        }
        guard statement.canonicalText == body else { return Result(problem: "body is not in its canonical form") }
        let event = statement.event(environment: stream.environment, app: stream.app, receivedAt: stored.receivedAt)
        if let column = differingColumn(stored, event) {
            return Result(problem: "\(column) is not what the body says")
        }
        return Result(event)
    }

    /// Facts are compared by the database, which knows best what it makes of JSON.
    private func differingColumn(_ stored: AuditedEvent, _ event: Event) -> String? {
        if stored.source != event.source.rawValue { return "source" }
        if stored.type != event.type { return "type" }
        if stored.subtype != event.subtype { return "subtype" }
        if stored.kind != event.kind.rawValue { return "kind" }
        if stored.occurredAt != event.occurredAt { return "occurred_at" }
        if stored.dedupeKey != event.dedupeKey { return "dedupe_key" }
        if stored.fingerprint != event.fingerprint { return "fingerprint" }
        return nil
    }

    /// As of the time of signing, so that certificates that have expired since do no harm.
    ///
    /// - Returns: Whether the stored chain is the one behind the signatures. Events of earlier versions have none.
    private func verify(_ notification: V2Notification, _ stored: AuditedEvent) async throws(Refusal) -> Bool {
        // Apple signs nothing of local environments.
        let chains =
            stream.environment.isLocal
            ? [] : try await signatures.verify(notification, fallback: stored.receivedAt)
        try AppExpectation(bundleId: stream.app, environments: [stream.environment]).check(notification)
        if stored.isUnsigned { return true }
        return stored.chainId == chains.first?.certificates.id.sha256
            && stored.revocation.map { SigningChain.Revocation(rawValue: $0) != nil } ?? false
    }
}

extension AuditedEvent {
    /// No certificates are kept with it.
    fileprivate var isUnsigned: Bool { chainId == nil && revocation == nil }
}
