import EventLog

/// What people can do for customers in the console. Each is nil where this process cannot do it.
package struct ConsoleActs: Sendable {
    /// Whether anything can be done at all, whatever the scope of a token.
    package var isOn = false
    package var grants: GrantService?
    /// Asks the stores for changes.
    package var stores: (any StoreActs)?
    /// Finds the purchases of orders.
    package var orders: OrderQuestions?
    /// States answers to refund requests.
    package var refunds: ConsumptionLog?
    /// The apps whose stores can be answered.
    package var refundApps = RefundApps()

    package init() {}
}
