import Foundation

// What the user is entitled to: by the signed answer, and by what only the device knows.
extension Subledger {
    /// The entitlements of now. Keeps what time it is at least, so that putting the clock back gains nothing.
    ///
    /// - Parameter purchases: What the store says on the device.
    func entitlements(with purchases: [SignedTransaction]) -> Entitlements {
        let reading = TimeAnchor.Reading(clock)
        guard let session else {
            return Entitlements(active: [], position: nil, asOf: reading.now, trust: .unverified)
        }
        let judgement =
            anchor?.judge(reading)
            ?? TimeAnchor.Judgement(time: reading.now, earliest: reading.now, isSuspect: false)
        let time = judgement.time
        keepTime(reading)
        let valid = session.token.flatMap { time < $0.validUntil ? $0 : nil }
        var active: [String: Entitlement] = [:]
        for grant in valid?.grants ?? [] where grant.isActive(at: time) {
            active[grant.id] = Entitlement(
                id: grant.id, until: grant.until, source: session.isFresh ? .server : .cached)
        }
        for purchase in purchases where isGranted(purchase, session, valid, at: time) {
            for id in products(of: purchase, session) where active[id] == nil {
                active[id] = Entitlement(id: id, until: purchase.expirationDate, source: .device)
            }
        }
        return Entitlements(
            active: active.values.sorted { $0.id < $1.id }, position: session.token?.position, asOf: time,
            trust: Self.trust(session, valid, judgement, reading))
    }

    private static func trust(
        _ session: Session, _ valid: EntitlementToken?, _ judgement: TimeAnchor.Judgement, _ reading: TimeAnchor.Reading
    ) -> Trust {
        guard let token = session.token else { return .unverified }
        let isBeforeIssue = reading.now < token.issued.addingTimeInterval(-Limits.clockToleranceSeconds)
        if judgement.isSuspect || isBeforeIssue { return .clockSuspect }
        return valid == nil ? .expired : .verified
    }

    /// Whether a purchase of which only the device knows grants access.
    private func isGranted(
        _ purchase: SignedTransaction, _ session: Session, _ valid: EntitlementToken?, at time: Date
    ) -> Bool {
        guard purchase.isVerified, purchase.appAccountToken == session.user, purchase.revocationDate == nil,
            purchase.expirationDate.map({ time < $0 }) ?? true, refused[purchase.id] == nil
        else { return false }
        let isNew = session.token.map { purchase.purchaseDate >= $0.issued } ?? true
        switch configuration.deviceGrants {
        case .none: return false
        case .sinceLastAnswer:
            return isNew && time < purchase.purchaseDate.addingTimeInterval(Limits.deviceGrantSeconds)
        case .withoutAnswer: return isNew || valid == nil
        }
    }

    private func products(of purchase: SignedTransaction, _ session: Session) -> [String] {
        configuration.products[purchase.productId] ?? session.answer.products[purchase.productId]
            ?? [purchase.productId]
    }

    // MARK: - Time

    private func keepTime(_ reading: TimeAnchor.Reading) {
        anchor?.advance(to: reading)
        guard let anchor, anchor.isNews(to: keptAnchor), let data = try? JSONEncoder().encode(anchor) else { return }
        keptAnchor = anchor
        try? cache.write(data, Self.device)
    }

    /// Writes the answer to the cache. What cannot be written is asked again after the next launch.
    func keep() {
        guard let session, let data = try? JSONEncoder().encode(session.answer) else { return }
        try? cache.write(data, session.user)
    }

    // MARK: - Questions

    /// Asks the server what the user is entitled to, and keeps the signed answer.
    func ask() async throws {
        guard let asked = session else { throw SubledgerError.notStarted }
        let response = try await send(
            Requests.entitlements(
                app: configuration.app, customerId: asked.customerId, environment: asked.answer.environment,
                tag: asked.token == nil ? nil : asked.answer.tag),
            for: asked)
        // The user may have changed meanwhile.
        guard session?.user == asked.user else { throw SubledgerError.notStarted }
        switch response.status {
        case 200: try accept(String(decoding: response.body, as: UTF8.self), tag: response.headers["etag"])
        case 304 where session?.token?.text == asked.token?.text: session?.isFresh = true
        // No customer: the server knows of no purchase. That is not signed, so it takes nothing away.
        case 404: return
        default: throw SubledgerError(response)
        }
    }

    private func accept(_ text: String, tag: String?) throws {
        guard let session else { throw SubledgerError.notStarted }
        let token: EntitlementToken
        do throws(EntitlementToken.Refusal) {
            token = try EntitlementToken(text, session.expectation(configuration))
        } catch {
            throw SubledgerError.answer(error.rawValue)
        }
        // A text that was recorded earlier must not bring back what has ended.
        let reading = TimeAnchor.Reading(clock)
        if let known = session.token, token.issued < known.issued { throw SubledgerError.answer("older than the last") }
        let earliest = anchor?.judge(reading).earliest ?? reading.now
        guard earliest < token.validUntil else {
            throw SubledgerError.answer(EntitlementToken.Refusal.expired.rawValue)
        }
        self.session?.token = token
        self.session?.isFresh = true
        self.session?.answer.token = text
        self.session?.answer.tag = tag
        // The server's time is the true one; what has passed since the last is known already.
        if anchor == nil || token.issued > earliest {
            anchor = TimeAnchor(time: token.issued, reading)
            keptAnchor = nil
            keepTime(reading)
        }
        keep()
    }

    /// Sends a request for a user; once more with another assertion if the server refuses the first.
    func send(_ request: ClientRequest, for session: Session) async throws -> ClientResponse {
        for isRenewal in [false, true] {
            var request = request
            let response: ClientResponse
            do {
                if let assertion = try await session.assertion.text(isRenewal: isRenewal) {
                    request.headers[Requests.assertionHeader] = assertion
                }
                response = try await transport.send(request)
            } catch {
                throw SubledgerError.unreachable
            }
            if response.status != 401 || isRenewal { return response }
        }
        throw SubledgerError.unreachable
    }
}

extension Subledger.Session {
    /// Reads what is kept for the user. A kept text that is not what it was is ignored.
    init(
        _ user: UUID, _ customerId: String, _ assertion: any UserAssertion, _ cache: any EntitlementCache,
        _ configuration: Configuration
    ) {
        self.user = user
        self.assertion = assertion
        let kept = cache.read(user).flatMap { try? JSONDecoder().decode(CachedAnswer.self, from: $0) }
        if let kept, kept.customerId == customerId {
            answer = kept
        } else {
            answer = CachedAnswer(customerId: customerId, environment: "production", products: [:])
        }
        token = answer.token.flatMap { try? EntitlementToken($0, expectation(configuration)) }
    }

    func expectation(_ configuration: Configuration) -> EntitlementToken.Expectation {
        EntitlementToken.Expectation(
            keys: configuration.keys, app: configuration.app, customerId: answer.customerId,
            environment: answer.environment)
    }
}
