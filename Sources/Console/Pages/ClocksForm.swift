import Encoding

/// The two times of a page: the instant that it is about, and the one whose knowledge counts.
struct ClocksForm {
    let at: Instant
    let knownAt: Instant?
    /// The page with the parameters that the request had.
    let address: Address

    func write(to html: inout HTMLWriter) {
        writeFields(to: &html)
        guard let knownAt else { return }
        html.element("p", [.class("note")]) { html in
            html.text("As it was known at ")
            html.time(knownAt)
            if at != knownAt {
                html.text(", about ")
                html.time(at)
            }
            html.text(". What was learned later is hatched in the pictures, and not in the tables. ")
            html.link("What is known now", address.with("knownAt", nil))
        }
    }

    private func writeFields(to html: inout HTMLWriter) {
        html.element("form", [.action(address.withoutQuery), .class("clocks")]) { html in
            for pair in address.query where !["at", "knownAt", "csv", "skip"].contains(pair.name) {
                html.hidden(pair.name, pair.value)
            }
            // A time that nobody chose stays out of its field: it would be sent with the other one, as if it were chosen.
            let isChosen = address.query.contains { $0.name == "at" }
            for (name, label, value, placeholder) in [
                ("at", "True at (UTC)", isChosen ? at : nil, knownAt == nil ? "now" : "the same time"),
                ("knownAt", "As known at (UTC)", knownAt, "now"),
            ] {
                html.element("label") { html in
                    html.text(label)
                    html.void(
                        "input",
                        [
                            .text(.name, name), .text(.type, "text"), .text(.placeholder, placeholder),
                            .text(.value, value.map(\.shortText) ?? ""), .text(.autocomplete, "off"),
                        ])
                }
            }
            html.element("button", text: "Show")
            html.link("Now", address.with("at", nil).with("knownAt", nil).with("from", nil).with("to", nil))
        }
    }
}
