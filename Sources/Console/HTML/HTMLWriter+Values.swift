import Encoding
import Subscriptions

extension HTMLWriter {
    /// Writes an instant as `<time>`, as sentences have it: `3 Oct 2026 03:44:10 UTC`.
    package mutating func time(_ instant: Instant, _ attributes: [Attribute] = []) {
        time(instant, instant.words, attributes)
    }

    /// Writes an instant as `<time>`, as tables have it: `2026-10-03 03:44:10`, in UTC.
    mutating func cell(_ instant: Instant) {
        time(instant, instant.shortText, [])
    }

    private mutating func time(_ instant: Instant, _ words: String, _ attributes: [Attribute]) {
        guard instant < .latest else {
            text("no end")
            return
        }
        element("time", [.text(.datetime, instant.description)] + attributes, text: words)
    }

    /// Writes an instant and its distance from now, such as `3 Oct 2026 03:44:10 UTC (in 3 days)`.
    package mutating func time(_ instant: Instant, from now: Instant) {
        time(instant)
        guard instant < .latest else { return }
        element("span", [.class("muted")], text: " (\(instant.words(from: now)))")
    }

    package mutating func link(_ text: String, _ address: Address, _ attributes: [Attribute] = []) {
        element("a", [.href(address)] + attributes, text: text)
    }

    /// Writes a link whose text is an id, shortened if it is long, as Google's purchase tokens are.
    package mutating func idLink(_ id: String, _ address: Address) {
        link(id.shortenedID, address, Self.attributes(ofID: id))
    }

    package mutating func id(_ id: String) {
        element("code", Self.attributes(ofID: id), text: id.shortenedID)
    }

    /// A table shows only the beginning of an id that is longer than a UUID, as grants have. The text is whole, so it is
    /// copied whole.
    private static func attributes(ofID id: String) -> [Attribute] {
        guard id.shortenedID == id else { return [.text(.title, id)] }
        return id.utf8.count > 40 ? [.class("long"), .text(.title, id)] : []
    }

    /// Writes what people call a product, with its id beside it; the id alone if it has no name.
    package mutating func product(_ productId: String, name: String?) {
        guard let name else { return text(productId) }
        text(name)
        text(" ")
        element("small", [.class("muted")], text: productId.shortenedID)
    }

    package mutating func hidden(_ name: String, _ value: String) {
        void("input", [.text(.type, "hidden"), .text(.name, name), .text(.value, value)])
    }

    /// Writes a line of text to fill in, with its label.
    package mutating func field(_ name: String, _ label: String, isRequired: Bool) {
        element("label") { html in
            html.text(label)
            html.void(
                "input",
                [.text(.name, name), .text(.type, "text"), .text(.autocomplete, "off")]
                    + (isRequired ? [.flag(.required)] : []))
        }
    }

    /// Writes a list of which one is chosen, with its label.
    ///
    /// - Parameter chosen: The value that is chosen at first; nil for the first one.
    package mutating func choice(
        _ name: String, _ label: String, _ options: [(value: String, text: String)], chosen: String? = nil
    ) {
        element("label") { html in
            html.text(label)
            html.element("select", [.text(.name, name)]) { html in
                for (value, text) in options {
                    html.element(
                        "option", [.text(.value, value)] + (value == chosen ? [.flag(.selected)] : []), text: text)
                }
            }
        }
    }

    /// Writes a term and its description, within `<dl>`.
    package mutating func item(_ term: String, _ content: (inout HTMLWriter) -> Void) {
        element("div") { html in
            html.element("dt", text: term)
            html.element("dd") { content(&$0) }
        }
    }
}

extension String {
    /// The beginning of a long id, such as `nfipflcjaipabeoccejjhdke…`; others as they are.
    var shortenedID: String { utf8.count > 48 ? "\(prefix(24))…" : self }
}

extension Instant {
    /// `2026-10-03 03:44:10`.
    package var shortText: String {
        let text = description
        return "\(text.prefix(10)) \(text.dropFirst(11).prefix(8))"
    }

    /// `2026-10-03`.
    package var dayText: String { String(description.prefix(10)) }

    /// `3 Oct 2026 03:44`.
    package var longText: String {
        guard self < .latest else { return "for ever" }
        let (year, month, day) = calendarDate
        return "\(day) \(Self.months[month - 1]) \(year) \(description.dropFirst(11).prefix(5))"
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// `in 3 days`, `2 hours ago`, `now`.
    package func words(from now: Instant) -> String {
        let difference = milliseconds - now.milliseconds
        let span = abs(difference)
        guard span >= 1000 else { return "now" }
        let units: [(Int64, String)] = [
            (86_400_000 * 365, "year"), (86_400_000 * 30, "month"), (86_400_000, "day"), (3_600_000, "hour"),
            (60_000, "minute"), (1000, "second"),
        ]
        for (length, name) in units where span >= length {
            let count = span / length
            let words = "\(count) \(name)\(count == 1 ? "" : "s")"
            return difference > 0 ? "in \(words)" : "\(words) ago"
        }
        return "now"
    }
}
