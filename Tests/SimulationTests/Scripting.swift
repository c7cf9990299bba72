import Encoding
import Simulation

let testApp = SimulatedApp(
    bundleId: "com.example.magazine", appAppleId: 1_400_000_001, environment: .production,
    sharedSecret: "0123456789abcdef0123456789abcdef")
let monthly = Product.subscription(.plus, .monthly, of: testApp.bundleId)
let premium = Product.subscription(.premium, .monthly, of: testApp.bundleId)

/// A date such as `2018-02-20` (its UTC midnight) or a full ISO 8601 instant.
func day(_ text: String) -> Instant {
    Instant(iso8601: text)!
}

/// A subscription to script by hand.
func newLife(isFamilyMember: Bool = false, isAssigned: Bool = false, subscription: Int = 0) -> SubscriptionLife {
    var customer = Customer(
        storefront: Storefront.all[1], appAccountToken: "7e3fb204-2a0c-4c5e-9d3c-0f5b3c8f4a11",
        appTransactionId: "704000000000000001", isFamilyMember: isFamilyMember)
    customer.isAssigned = isAssigned
    return SubscriptionLife(
        customer: customer,
        identifiers: Identifiers(seed: 7, index: 0, subscription: subscription))
}

extension SubscriptionLife {
    func isActive(_ date: String) -> Bool { access.isActive(at: day(date)) }

    /// Day, type and subtype of each notification that version 2 sends.
    var sentInVersion2: [String] {
        notifications.compactMap { notification in
            notification.version2.map { name in
                let day = notification.signedDate.description.prefix(10)
                return "\(day) \(name.type)" + (name.subtype.map { "/\($0)" } ?? "")
            }
        }
    }

    var sentInVersion1: [String] {
        notifications.compactMap { notification in
            notification.version1.map { "\(notification.signedDate.description.prefix(10)) \($0)" }
        }
    }
}
