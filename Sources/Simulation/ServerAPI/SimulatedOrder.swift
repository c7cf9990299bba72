/// The numbers of orders that the simulated App Store writes to customers: an order for each transaction.
package enum SimulatedOrder {
    private static let prefix = "M"

    /// `M` and the transaction id in base 36.
    package static func number(of transactionId: String) -> String? {
        UInt64(transactionId).map { prefix + String($0, radix: 36, uppercase: true) }
    }

    /// Nil for a number that the store does not write.
    static func transactionId(of number: String) -> String? {
        guard number.hasPrefix(prefix) else { return nil }
        return UInt64(number.dropFirst(prefix.count), radix: 36).map { String($0) }
    }
}
