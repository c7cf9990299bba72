import Encoding
import EventLog
import Readers
import Subscriptions

/// The events of a stream, newest or oldest first, with the filters of `GET /events`.
package struct EventsPage: ConsolePage {
    package let page: EventPage
    package let filter: EventFilter
    /// The position after which the page starts.
    package let after: Int64
    package let limit: Int
    package let address: Address

    package init(page: EventPage, filter: EventFilter, after: Int64, limit: Int, address: Address) {
        self.page = page
        self.filter = filter
        self.after = after
        self.limit = limit
        self.address = address
    }

    package var title: String { "Events" }
    package var section: ConsoleSection? { .events }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }
    package var tables: [ConsoleTable] {
        [
            .events(
                page.events, name: "events", stream: stream,
                caption: "Positions \((after + 1).grouped) to \(page.through.number.grouped)",
                empty: filter == EventFilter()
                    ? "No event here: the log ends at position \(page.head.grouped)."
                    : "No event matches the filter here. Go on with the next page, or remove a part of the filter.",
                rowsMax: limit)
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        writeFilters(to: &html)
        for table in tables { table.write(on: address, to: &html) }
        if page.hasMore, page.events.count < limit {
            html.element(
                "p", [.class("muted")],
                text: "The log was searched up to position \(page.through.number.grouped). Go on with the next page.")
        }
        html.element("nav", [.class("pages"), .text(.label, "Pages of events")]) { html in
            if after > 0 {
                html.link("First", address.with("after", nil))
                html.link(
                    "Earlier", address.with("after", "\(max(0, after - Int64(limit)))"), [.text(.rel, "prev")])
            }
            if page.hasMore {
                html.link("Later", address.with("after", "\(page.through.number)"), [.text(.rel, "next")])
            }
            html.link("Latest", address.with("after", "\(max(0, page.head - Int64(limit)))"))
            html.element("span", [.class("muted")], text: "The log ends at position \(page.head.grouped).")
        }
    }

    private func writeFilters(to html: inout HTMLWriter) {
        html.element("form", [.action(address.withoutQuery), .class("filters")]) { html in
            if let stream { html.hidden("stream", stream) }
            html.choice(
                "kind", "Kind", Self.options(EventKind.allCases.map { ($0.rawValue, $0.words) }, filter.kind),
                chosen: filter.kind ?? "")
            html.choice(
                "source", "From", Self.options(EventSource.allCases.map { ($0.rawValue, $0.words) }, filter.source),
                chosen: filter.source ?? "")
            html.element("label") { html in
                html.text("Type, as the store spells it")
                html.void("input", Self.input("type", filter.type) + [.text(.list, "types")])
            }
            html.element("datalist", [.text(.id, "types")]) { html in
                for type in Set(page.events.compactMap(\.type)).sorted() {
                    html.element("option", [.text(.value, type)]) { _ in }
                }
            }
            for (name, label, value) in [
                ("receivedFrom", "Received from (UTC)", filter.receivedFrom?.shortText),
                ("receivedUntil", "Received until (UTC)", filter.receivedUntil?.shortText),
            ] {
                html.element("label") { html in
                    html.text(label)
                    html.void("input", Self.input(name, value))
                }
            }
            html.element("button", text: "Filter")
            html.link("No filter", address.withoutQuery.with("stream", stream))
        }
    }

    private static func input(_ name: String, _ value: String?) -> [Attribute] {
        [
            .text(.name, name), .text(.type, "text"), .text(.value, value ?? ""), .text(.autocomplete, "off"),
        ]
    }

    /// All values of a filter, in the order of their words, with that of the address even if it is none of them.
    private static func options(
        _ known: [(value: String, text: String)], _ chosen: String?
    ) -> [(value: String, text: String)] {
        var options = known.sorted { $0.text < $1.text }
        if let chosen, !known.contains(where: { $0.value == chosen }) { options.insert((chosen, chosen), at: 0) }
        return [(value: "", text: "all")] + options
    }
}

extension EventKind {
    fileprivate var words: String { rawValue.replacing("_", with: " ") }
}

extension EventSource {
    fileprivate var words: String {
        switch self {
        case .appleV1: "Apple: notification, version 1"
        case .appleV2: "Apple: notification, version 2"
        case .appleHistory: "Apple: fetched notification"
        case .appleReceipt: "Apple: answer about a receipt"
        case .appleDevice: "Apple: from a device"
        case .appleAPI: "Apple: answer of the Server API"
        case .googleRTDN: "Google: notification"
        case .googleAPI: "Google: answer of the API"
        case .googleDevice: "Google: from a device"
        case .googleVoided: "Google: voided purchase"
        case .backend: "your backend"
        case .operator: "operator"
        }
    }
}
