import Encoding
import EventLog
import Readers

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
                caption: "Positions \((after + 1).grouped) to \(page.through.number.grouped)", rowsMax: limit)
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
            for (name, label, value) in [
                ("type", "Type, as Apple spells it", filter.type), ("kind", "Kind", filter.kind),
                ("source", "Source", filter.source),
                ("receivedFrom", "Received from (UTC)", filter.receivedFrom?.shortText),
                ("receivedUntil", "Received until (UTC)", filter.receivedUntil?.shortText),
            ] {
                html.element("label") { html in
                    html.text(label)
                    html.void(
                        "input",
                        [
                            .text(.name, name), .text(.type, "text"), .text(.value, value ?? ""),
                            .text(.autocomplete, "off"),
                        ])
                }
            }
            html.element("button", text: "Filter")
            html.link("No filter", address.withoutQuery.with("stream", stream))
        }
    }
}
