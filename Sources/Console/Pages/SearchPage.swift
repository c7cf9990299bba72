import Readers

/// The result of a search that has none, or several.
package struct SearchPage: ConsolePage {
    package let text: String
    package let hits: [SearchHit]
    package let streams: Int
    package let address: Address

    package init(text: String, hits: [SearchHit], streams: Int, address: Address) {
        self.text = text
        self.hits = hits
        self.streams = streams
        self.address = address
    }

    package var title: String { hits.isEmpty ? "No id “\(text)”" : "\(hits.count) things have the id “\(text)”" }
    package var section: ConsoleSection? { nil }

    package var tables: [ConsoleTable] {
        [
            ConsoleTable(
                "hits", caption: "Found",
                columns: [.init("Kind"), .init("Id"), .init("App"), .init("Environment")],
                rows: hits.map { hit in
                    [.text(hit.kind), .link(hit.label, hit.address), .text(hit.app), .text(hit.environment)]
                }, empty: "Nothing.")
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        guard hits.isEmpty else {
            for table in tables { table.write(on: address, to: &html) }
            return
        }
        html.element(
            "p",
            text:
                "No id in \(streams == 1 ? "1 stream" : "\(streams) streams"), production and sandbox alike. Compared exactly with:"
        )
        html.element("ul") { html in
            for kind in Self.tried { html.element("li", text: kind) }
        }
        html.element(
            "p",
            text:
                "A part of an id is not searched for. A purchase is known once a notification, a receipt or signed data of it has arrived."
        )
    }

    private static let tried = [
        "backend customer ids and account tokens (in any case)", "app transaction ids",
        "subscription, transaction and web order line item ids", "notification UUIDs and digests",
        "digests of receipts", "positions of events", "configured products",
    ]
}

extension SearchHit {
    package var address: Address {
        let stream = "\(environment):\(app)"
        switch target {
        case .customer(let id, let kind):
            return Address("customers", id).with("stream", stream).with("as", kind)
        case .event(let position): return Address("events", "\(position)").with("stream", stream)
        case .product: return Address("products").with("stream", stream)
        }
    }

    var label: String {
        switch target {
        case .customer(let id, _), .product(let id): id
        case .event(let position): "event \(position)"
        }
    }
}
