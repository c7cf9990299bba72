import Encoding

extension SubscriptionFacts {
    /// The evidence of who owns a subscription of Google: the app user that each purchase states, an earlier one's if it
    /// states none, and the expired purchase after which a customer bought again in Google Play, with its app user.
    ///
    /// Every purchase is a key that leads to the subscription.
    func purchaseEvidence() -> OwnershipEvidence {
        let own = CustomerKey(.subscription, originalTransactionId)
        var ties: [CustomerKey: Int64] = [:]
        func tie(_ purchaseToken: String?, _ position: Int64) {
            guard let key = CustomerKey(stated: .subscription, purchaseToken), key != own else { return }
            ties[key] = min(ties[key] ?? position, position)
        }
        if let line {
            tie(line.originalTransactionId, line.position)
            return OwnershipEvidence(
                subscription: own, purchases: [], ties: ties,
                line: CustomerKey(.subscription, line.originalTransactionId))
        }
        var continued: (key: CustomerKey, position: Int64)?
        for (stated, evidence) in purchases {
            guard case .snapshot(let snapshot) = stated.purchase.fact else { continue }
            tie(snapshot.expiredPurchaseToken, evidence.position)
            if let key = CustomerKey(stated: .subscription, snapshot.expiredPurchaseToken), key != own,
                (evidence.position, key) < (continued?.position ?? .max, continued?.key ?? key)
            {
                continued = (key, evidence.position)
            }
        }
        var bought: [OwnershipEvidence.Purchase] = []
        var isOutsideApp = true
        for history in PurchaseLine(self).histories {
            guard let start = history.startTime,
                let token = CustomerKey(
                    stated: .account, history.accountId ?? history.inherited ?? history.expiredAccountId),
                let position = history.answers.first(where: { $0.snapshot.accountId != nil })?.position
                    ?? history.answers.first?.position
            else { continue }
            // Once it is acknowledged, the purchase may state the app user whom it continues.
            isOutsideApp = isOutsideApp && history.expiredAccountId == token.id.text
            bought.append(
                OwnershipEvidence.Purchase(
                    purchaseDate: start, transactionId: ByteString(history.purchaseToken), token: token,
                    position: position))
        }
        return OwnershipEvidence(
            subscription: own, purchases: bought, ties: ties, continued: continued?.key,
            continuedAccount: isOutsideApp && Set(bought.map(\.token)).count == 1 ? bought.first?.token : nil)
    }
}
