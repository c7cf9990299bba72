extension Timeline {
    /// Writes what the marks of a page's pictures mean, folded. Of the kinds of access, only those that are drawn.
    static func writeLegend(of timelines: [Timeline], to html: inout HTMLWriter) {
        let kinds = timelines.reduce(into: Set<String>()) { $0.formUnion($1.barKinds) }
        html.element("details") { html in
            html.element("summary", text: "What the marks mean")
            html.element("ul", [.class("legend")]) { html in
                for (kind, words) in barMarks where kinds.contains(kind) {
                    writeMark(words, to: &html) { html in
                        html.element("rect", rectangle + [.class("bar \(kind)")]) { _ in }
                        guard let pattern = Self.pattern(of: kind) else { return }
                        html.element("rect", rectangle + [.text(.fill, "url(#\(pattern))")]) { _ in }
                    }
                }
                for mark in marks {
                    writeMark(mark.words, to: &html) { $0.element(mark.shape, mark.attributes) { _ in } }
                }
                if timelines.contains(where: { $0.known != nil }) {
                    writeMark("learned after the time of knowledge", to: &html) {
                        $0.element("rect", rectangle + [.class("later")]) { _ in }
                    }
                }
                html.element("li", text: "×5: five marks, drawn as one, which leads to a closer picture")
            }
        }
    }

    private static func writeMark(
        _ words: String, to html: inout HTMLWriter, _ shapes: (inout HTMLWriter) -> Void
    ) {
        html.element("li") { html in
            html.element("svg", [.text(.viewBox, "0 0 24 12"), .text(.role, "presentation")], shapes)
            html.text(words)
        }
    }

    private static let barMarks = [
        ("paid", "paid access"), ("trial", "free trial"),
        ("grace", "grace: the renewal failed, and access continues"), ("given", "given by hand"),
        ("family", "paid for by another person"), ("owned", "bought once, without an end"),
    ]

    private static let marks: [(words: String, shape: StaticString, attributes: [Attribute])] = [
        ("purchase", "circle", circle + [.class("purchase")]),
        ("purchase that was refunded later", "circle", circle + [.class("purchase refund")]),
        ("its refund", "path", [.text(.d, "M8 2l8 8m0 -8l-8 8"), .class("strike")]),
        ("access that a refund took back", "rect", rectangle + [.class("bar removed")]),
        ("from an event to its late receipt", "path", [.text(.d, "M4 2v7H20v-7"), .class("elbow")]),
        ("renewal is on", "path", [.text(.d, line), .class("on")]),
        ("renewal is off", "path", [.text(.d, line), .class("off")]),
        ("the store retries the payment", "path", [.text(.d, line), .class("in-retry")]),
    ]

    private static let circle: [Attribute] = [.number(.cx, 12), .number(.cy, 6), .number(.r, 5)]
    private static let rectangle: [Attribute] = [
        .number(.x, 2), .number(.y, 1), .number(.width, 20), .number(.height, 10),
    ]
    private static let line = "M0 6H24"
}
