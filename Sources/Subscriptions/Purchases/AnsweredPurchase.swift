/// What the last answer about a purchase showed, as far as its orders are known.
package struct AnsweredPurchase: Sendable, Hashable {
    /// Google's name of the state, without its prefix.
    package let stateName: String
    /// The newest order whose period is known; nil if there is none.
    package let orderId: String?

    package init(stateName: String, orderId: String?) {
        self.stateName = stateName
        self.orderId = orderId
    }

    /// Orders of one answer at most. Older ones of a purchase that was unknown for longer are one period over the gap.
    private static let ordersMax = 60

    /// What an answer shows, and the orders to ask about because it does not show when their periods began: those that
    /// were charged between this answer and the one before, and the one that ended account hold or a pause; and the newest
    /// one, which says what was paid. Google does not tell when an amount is paid back, so the newest order is asked about
    /// again whenever the state changes or something was voided.
    ///
    /// `isOptional` is true if the answer has a price that counts until the order is known: Google shows the list price,
    /// and an order may cost less without an offer in the answer.
    ///
    /// - Parameters:
    ///   - snapshot: The answer.
    ///   - last: What was known before it; nil if nothing was.
    ///   - isRecovered: Whether a notification says that account hold or a pause ended.
    ///   - isVoided: Whether a notification says that something was voided.
    package static func after(
        _ snapshot: PurchaseSnapshot, last: AnsweredPurchase?, isRecovered: Bool, isVoided: Bool = false
    ) -> (answered: AnsweredPurchase, orders: [String], isOptional: Bool) {
        let orders = snapshot.items.compactMap(\.orderId)
        guard let newest = orders.max(by: { PurchaseOrder.number(of: $0) < PurchaseOrder.number(of: $1) }) else {
            return (AnsweredPurchase(stateName: snapshot.stateName, orderId: last?.orderId), [], false)
        }
        let answered = AnsweredPurchase(stateName: snapshot.stateName, orderId: newest)
        guard newest != last?.orderId else {
            return (answered, isVoided || last?.stateName != snapshot.stateName ? [newest] : [], false)
        }
        let number = PurchaseOrder.number(of: newest)
        // Of another purchase, as in a plan change at the next renewal: as if nothing were known.
        let isContinued = last?.orderId.map { PurchaseOrder.base(of: $0) == PurchaseOrder.base(of: newest) } ?? false
        let first = isContinued ? PurchaseOrder.number(of: last?.orderId) + 1 : 0
        let wasInterrupted = [PurchaseSnapshot.State.onHold, .paused].contains { $0.rawValue == last?.stateName }
        let isCharged = snapshot.state == .active || snapshot.state == .canceled
        if first >= number, isCharged, !wasInterrupted, !isRecovered {
            let paid = snapshot.items.filter { $0.orderId == newest && $0.phase != "FREE_TRIAL" }
            guard !paid.isEmpty else { return (answered, [], false) }
            return (answered, [newest], !isVoided && !paid.contains(where: \.hidesPrice))
        }
        let asked = (max(min(first, number), number - ordersMax + 1)...number).map { number in
            PurchaseOrder.base(of: newest) + (number == 0 ? "" : "..\(number - 1)")
        }
        return (answered, asked, false)
    }
}

extension PurchaseSnapshot.Item {
    /// Whether only the order has the price that was paid: an offer can have lowered it, and that of a prepaid plan is in no
    /// answer. Answers of before 2025 have no price at all.
    ///
    /// - Source: googlesamples/android-play-publisher-api#76, googleapis/google-api-java-client-services#22351.
    fileprivate var hidesPrice: Bool {
        if isPrepaid { return true }
        return switch phase {
        case "BASE_PRICE": price == nil
        case nil: offerId != nil || price == nil
        default: true
        }
    }
}
