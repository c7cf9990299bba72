import Encoding
import Subscriptions

extension [CustomerKey] {
    /// Writes the ids of a customer as members of an object.
    package func write(to writer: inout JSONWriter) {
        func write(_ name: StaticString, _ kind: CustomerKey.Kind) {
            writer.key(name)
            writer.array(filter { $0.kind == kind }) { $0.value($1.id.text) }
        }
        write("backendCustomerIds", .link)
        write("appAccountTokens", .account)
        write("appTransactionIds", .appTransaction)
        write("subscriptions", .subscription)
    }
}
