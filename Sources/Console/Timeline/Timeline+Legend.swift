extension Timeline {
    /// Writes what the marks of a page's pictures mean, folded.
    static func writeLegend(to html: inout HTMLWriter) {
        html.element("details") { html in
            html.element("summary", text: "What the marks mean")
            html.element("ul", [.class("legend")]) { html in
                for mark in marks {
                    html.element("li") { html in
                        html.element("svg", [.text(.viewBox, "0 0 24 12"), .text(.role, "presentation")]) { html in
                            html.element(mark.shape, mark.attributes) { _ in }
                        }
                        html.text(mark.words)
                    }
                }
                html.element("li", text: "×5: five marks, drawn as one, which leads to a closer picture")
            }
        }
    }

    private static let marks: [(words: String, shape: StaticString, attributes: [Attribute])] = [
        ("purchase", "circle", circle + [.class("purchase")]),
        ("purchase that was refunded later", "circle", circle + [.class("purchase refund")]),
        ("its refund", "path", [.text(.d, "M8 2l8 8m0 -8l-8 8"), .class("strike")]),
        (
            "access that a refund took back", "rect",
            [.number(.x, 2), .number(.y, 1), .number(.width, 20), .number(.height, 10), .class("bar removed")]
        ),
        ("from an event to its late receipt", "path", [.text(.d, "M4 2v7H20v-7"), .class("elbow")]),
        ("renewal is on", "path", [.text(.d, line), .class("on")]),
        ("renewal is off", "path", [.text(.d, line), .class("off")]),
        ("the store retries the payment", "path", [.text(.d, line), .class("in-retry")]),
    ]

    private static let circle: [Attribute] = [.number(.cx, 12), .number(.cy, 6), .number(.r, 5)]
    private static let line = "M0 6H24"
}
