import Encoding
import Subscriptions

extension CustomerReader {
    /// How a request identifies a customer.
    package struct Reference: Sendable {
        /// Nil for any app. An app that is joined with it counts, too.
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
    /// The app that knows the id.
    var knownBy: String { get }
    /// The app with which it is joined; nil if it is not.
    var joinedApp: String? { get }
    var kind: CustomerKey.Kind { get }
    /// In joined apps, the name of the whole customer.
    var customer: CustomerKey { get }
}

extension CustomerReader.Answer where Value: CustomerMatch {
    /// The customer that all matches have in common, as the match of the first kind: an id of several kinds is not
    /// ambiguous if they identify the same customer, and neither is one of two joined apps.
    ///
    /// - Parameters:
    ///   - matches: At most one for each app and kind.
    ///   - app: The app that was asked for. What the id is in a joined app counts only if this one does not know it.
    init(_ matches: [Value], of app: String?) {
        let own = matches.filter { $0.knownBy == app }
        let matches = (own.isEmpty ? matches : own).sorted { ByteString($0.knownBy) < ByteString($1.knownBy) }
        let kinds = CustomerKey.Kind.allCases
        let ordered = kinds.flatMap { kind in matches.filter { $0.kind == kind } }
        guard let first = ordered.first else {
            self = .unknown
            return
        }
        let isOneCustomer = ordered.allSatisfy { match in
            match.customer == first.customer && (match.knownBy == first.knownBy || match.knownBy == first.joinedApp)
        }
        if isOneCustomer {
            self = .found(first)
            return
        }
        let apps = Set(matches.map { ByteString($0.knownBy) }).sorted()
        self = apps.count > 1 ? .severalApps(apps.map(\.text)) : .severalKinds(ordered.map(\.kind))
    }
}
