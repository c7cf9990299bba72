import Encoding
import Subscriptions

extension CustomerReader {
    /// How a request identifies a customer.
    package struct Reference: Sendable {
        /// Nil for any app.
        package var app: String?
        package var environment: Environment
        package var id: String
        /// What the id is; nil for any kind, as long as it identifies one customer.
        package var kind: CustomerKey.Kind?

        package init(app: String?, environment: Environment, id: String, kind: CustomerKey.Kind? = nil) {
            self.app = app
            self.environment = environment
            self.id = id
            self.kind = kind
        }
    }

    /// The result of a lookup.
    package enum Answer<Value: Sendable>: Sendable {
        case found(Value)
        case unknown
        /// Several apps have the id. In order of bundle id.
        case severalApps([String])
        /// The id is of several kinds, which identify different customers. In order of kind.
        case severalKinds([CustomerKey.Kind])

        func map<Other: Sendable>(_ transform: (Value) -> Other) -> Answer<Other> {
            switch self {
            case .found(let value): .found(transform(value))
            case .unknown: .unknown
            case .severalApps(let apps): .severalApps(apps)
            case .severalKinds(let kinds): .severalKinds(kinds)
            }
        }
    }
}

/// A customer that an id identifies if it is of one kind.
protocol CustomerMatch: Sendable {
    var app: String { get }
    var kind: CustomerKey.Kind { get }
    var customer: CustomerKey { get }
}

extension CustomerReader.Answer where Value: CustomerMatch {
    /// The customer that all matches have in common, as the match of the first kind: an id of several kinds is not
    /// ambiguous if they identify the same customer.
    ///
    /// - Parameter matches: At most one for each app and kind.
    init(_ matches: [Value]) {
        let apps = Set(matches.map { ByteString($0.app) }).sorted()
        guard apps.count < 2 else {
            self = .severalApps(apps.map(\.text))
            return
        }
        let kinds = CustomerKey.Kind.allCases
        let ordered = kinds.compactMap { kind in matches.first { $0.kind == kind } }
        guard let first = ordered.first else {
            self = .unknown
            return
        }
        let isOneCustomer = ordered.allSatisfy { $0.customer == first.customer }
        self = isOneCustomer ? .found(first) : .severalKinds(ordered.map(\.kind))
    }
}
