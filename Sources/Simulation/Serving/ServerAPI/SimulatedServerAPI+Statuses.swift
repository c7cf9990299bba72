import Encoding

extension SimulatedServerAPI {
    /// The statuses of all subscriptions of the Apple Account, in no order.
    func statuses(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        var wanted: Set<Int> = []
        for text in request.call.values("status") {
            guard let status = Int(text), (1...5).contains(status) else { throw .status }
            wanted.insert(status)
        }
        let account = try find(request).account
        let amendments = amendments
        var random = SplitMix64(
            seed: simulation.settings.seed, UInt64(account.key.story), UInt64(request.now.milliseconds), .max - 8)
        let shown = account.subscriptions.compactMap { status(of: $0, amendments, request) }
            .filter { wanted.isEmpty || wanted.contains($0.status.rawValue) }.shuffled(using: &random)
        let groups = Set(shown.map(\.subscriptionGroup)).sorted().shuffled(using: &random)
        return .json { writer in
            writeApp(to: &writer)
            writer.key("data")
            writer.array(groups) { writer, group in
                writer.object { writer in
                    writer.member("subscriptionGroupIdentifier", group)
                    writer.key("lastTransactions")
                    writer.array(shown.filter { $0.subscriptionGroup == group }) { writer, status in
                        writer.object { write(status, request, to: &$0) }
                    }
                }
            }
        }
    }

    private func write(_ status: SimulatedStatus, _ request: StoreAPIRequest, to writer: inout JSONWriter) {
        writer.member("status", status.status.rawValue)
        writer.member("originalTransactionId", status.originalTransactionId)
        writer.member("signedTransactionInfo", sign(status.transaction, request))
        writer.member("signedRenewalInfo", signRenewalInfo(of: status, request))
    }

    /// The status at the time of the request or, for some requests after a renewal, before the renewal.
    private func status(
        of subscription: SimulatedSubscription, _ amendments: BookAmendments, _ request: StoreAPIRequest
    ) -> SimulatedStatus? {
        guard let status = subscription.status(at: request.now, amendments) else { return nil }
        guard settings.staleStatuses > 0, let renewal = subscription.lastRenewal(at: request.now) else { return status }
        let isStale = state.withLock { state -> Bool in
            let answers = state.staleAnswers[status.transaction.transactionId, default: 0]
            guard answers < settings.staleStatuses else { return false }
            state.staleAnswers[status.transaction.transactionId] = answers + 1
            return true
        }
        return isStale ? subscription.status(at: renewal.advanced(byMilliseconds: -1), amendments) : status
    }
}
