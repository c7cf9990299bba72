import Encoding

// MARK: - Orders

extension SimulatedPlay {
    /// More are refused.
    private static let ordersMax = 1000

    private func orderAnswer(_ orderId: String, at now: Instant) -> [UInt8]? {
        guard let place = storyteller.place(ofOrder: orderId), (0..<storyCount).contains(place.story),
            let order = story(place.story).orders.first(where: { $0.orderId == orderId })
        else { return nil }
        return order.answer(at: now, settings.rendering)
    }

    func order(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        guard let body = orderAnswer(request.id, at: request.now) else { throw .notFound }
        return .json(body)
    }

    /// One unknown order fails all.
    func orders(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        let ids = request.call.values("orderIds")
        guard !ids.isEmpty else { throw .required }
        guard ids.count <= Self.ordersMax else { throw .invalidValue }
        var bodies: [[UInt8]] = []
        for id in ids {
            guard let body = orderAnswer(id, at: request.now) else { throw .notFound }
            bodies.append(body)
        }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("orders")
            writer.array(bodies) { $0.value(rawJSON: $1) }
        }
        return .json(writer.bytes)
    }
}

// MARK: - Charge-backs

extension SimulatedPlay {
    /// How long a question about a charge-back waits for its answer.
    private static let reviewWait = Duration.seconds(86_400)

    /// Takes the developer's answer about a charge-back. The first one counts, and later ones are ignored.
    ///
    /// - Source: Google, "Method: orders.reviewrefund" and "PendingRefundReviewNotification".
    func reviewRefund(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        guard let place = storyteller.place(ofOrder: request.id), (0..<storyCount).contains(place.story) else {
            throw .notFound
        }
        guard let body = try? JSONDocument(request.call.body).root, body.isObject else { throw .invalidValue }
        guard let token = body.string("pendingRefundToken"), let preference = body.string("refundPreference"),
            body.bool("sampleContentProvided") != nil
        else { throw .required }
        guard ["APPROVE", "DECLINE", "NEUTRAL"].contains(preference) else { throw .invalidValue }
        if let percentage = body["consumptionPercentageMilliunits"] {
            guard let number = percentage.int64, (0...100_000).contains(number) else { throw .invalidValue }
        }
        let question = story(place.story).messages.first { message in
            guard case .refundReview(request.id, _) = message.content else { return false }
            return message.refundReviewToken == token && message.eventTime <= request.now
        }
        guard let question else { throw .invalidValue }
        guard request.now < question.eventTime.advanced(by: Self.reviewWait) else { throw .invalidState }
        let review = RefundReview(
            orderId: request.id, pendingRefundToken: token, body: request.call.body, at: request.now)
        state.withLock { state in
            guard !state.refundReviews.contains(where: { $0.pendingRefundToken == token }) else { return }
            state.refundReviews.append(review)
        }
        return .empty
    }
}

// MARK: - Voided purchases

extension SimulatedPlay {
    private static let window = Duration.seconds(30 * 86_400)
    private static let rowsMax = 1000
    /// Below every instant in milliseconds that a client may state: seconds since 1970 are.
    private static let millisecondsMin: Int64 = 100_000_000_000

    /// All voids of the run, in the order in which Google sees them.
    private var allVoids: [PlayVoid] {
        var voids = state.withLock { $0.voids }
        for number in 0..<storyCount where voids[number] == nil {
            voids[number] = story(number).voids
            state.withLock { $0.voids[number] = voids[number] }
        }
        return voids.values.joined().sorted { ($0.seenAt, $0.orderId) < ($1.seenAt, $1.orderId) }
    }

    func voidedPurchases(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        let call = request.call
        let oldest = request.now.advanced(by: .zero - Self.window)
        let start = max(try instant(call.value("startTime")) ?? oldest, oldest)
        let end = min(try instant(call.value("endTime")) ?? request.now, request.now)
        let type = call.value("type") ?? "0"
        guard ["0", "1"].contains(type) else { throw .invalidValue }
        let rows = try number(call.value("maxResults")) ?? Self.rowsMax
        guard (1...Self.rowsMax).contains(rows) else { throw .invalidValue }
        let includesPartial = call.value("includeQuantityBasedPartialRefund") == "true"
        let found = allVoids.filter { void in
            start <= void.seenAt && void.seenAt <= end && (type == "1" || !void.isSubscription)
                && (includesPartial || !void.isPartial)
        }
        // The token binds a page to the other parameters.
        let mark = "\(start.milliseconds == oldest.milliseconds ? 0 : start.milliseconds)-\(type)-\(includesPartial)"
        var first = 0
        if let token = call.value("token") {
            let parts = token.split(separator: ".", maxSplits: 1)
            guard parts.count == 2, let position = Int(parts[0]), parts[1] == mark, position <= found.count else {
                throw .invalidValue
            }
            first = position
        }
        let page = found.dropFirst(first).prefix(min(rows, settings.voidsPerPage))
        let next = first + page.count
        return .json(
            PlayVoid.answer(
                Array(page), nextPageToken: next < found.count ? "\(next).\(mark)" : nil, settings.rendering))
    }

    private func number(_ text: String?) throws(PlayError) -> Int? {
        guard let text else { return nil }
        guard let number = Int(text) else { throw .invalidValue }
        return number
    }

    private func instant(_ text: String?) throws(PlayError) -> Instant? {
        guard let text else { return nil }
        guard let number = Int64(text), let instant = Instant(milliseconds: number) else { throw .invalidValue }
        // Google answers seconds as if the caller might not read voided purchases.
        guard number >= Self.millisecondsMin else { throw .forbidden }
        return instant
    }
}
