import Encoding
import Readers

/// A page of the console: its values, from which HTML and CSV are written.
package protocol ConsolePage: Sendable {
    /// The title, and the only `h1`.
    var title: String { get }
    /// The id that the page is about, beside the title; nil if it is about none.
    var subject: String? { get }
    /// What the form that led here has done, in a sentence; nil if no form did.
    var done: String? { get }
    /// The name of the link in the navigation that leads to the page; nil if none does.
    var section: ConsoleSection? { get }
    /// All tables of the page.
    var tables: [ConsoleTable] { get }
    /// Writes what follows the title.
    func write(in frame: PageFrame, to html: inout HTMLWriter)
}

extension ConsolePage {
    package var subject: String? { nil }
    package var done: String? { nil }
}

package enum ConsoleSection: String, Sendable, CaseIterable {
    case overview, events, figures, products, refunds, deliveries, system

    var title: String {
        switch self {
        case .overview: "Overview"
        case .events: "Events"
        case .figures: "Figures"
        case .products: "Products"
        case .refunds: "Refunds"
        case .deliveries: "Deliveries"
        case .system: "System"
        }
    }

    var address: Address {
        switch self {
        case .overview: Address()
        case .events: Address("events")
        case .figures: Address("figures", "active")
        case .products: Address("products")
        case .refunds: Address("refunds")
        case .deliveries: Address("deliveries")
        case .system: Address("system")
        }
    }
}

/// What surrounds every page of a session.
package struct PageFrame: Sendable {
    package let address: Address
    package let streams: [StreamState]
    /// The chosen stream; nil if there is none.
    package private(set) var stream: StreamState?
    package let now: Instant
    package let csrf: String
    package let isAdmin: Bool
    /// Whether the session may act for customers here.
    package let mayAct: Bool
    package let theme: Theme
    package let hasKeys: Bool

    package enum Theme: String, Sendable, CaseIterable {
        case system, light, dark
    }

    package init(
        address: Address, streams: [StreamState], stream: StreamState?, now: Instant, csrf: String, isAdmin: Bool,
        mayAct: Bool = false, theme: Theme, hasKeys: Bool
    ) {
        self.address = address
        self.streams = streams
        self.stream = stream
        self.now = now
        self.csrf = csrf
        self.isAdmin = isAdmin
        self.mayAct = mayAct
        self.theme = theme
        self.hasKeys = hasKeys
    }

    /// The frame of a page about another stream.
    func of(_ stream: StreamState?) -> PageFrame {
        var frame = self
        frame.stream = stream
        return frame
    }

    /// An address with the chosen stream.
    package func here(_ address: Address) -> Address {
        address.with("stream", stream?.text)
    }

    /// The page of a customer at the two times of this page.
    package func customer(_ id: String, kind: String? = nil) -> Address {
        here(Address("customers", id)).with("as", kind).withClocks(of: address)
    }

    /// The page of a subscription at the two times of this page.
    package func subscription(_ id: String) -> Address {
        here(Address("subscriptions", id)).withClocks(of: address)
    }

    package func event(_ position: Int64) -> Address { here(Address("events", "\(position)")) }
}
