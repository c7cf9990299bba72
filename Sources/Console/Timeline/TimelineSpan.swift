import Encoding

/// What the pictures of a page show.
package enum TimelineSpan: Sendable, Hashable {
    /// The latest part of a long history; all of a short one.
    case latest
    case all
    case closer(Range<Instant>)

    /// Writes the heading of pictures, with the links to what they do not show.
    ///
    /// - Parameter isPart: Whether the pictures leave something out.
    func writeCaption(isPart: Bool, _ page: Address, to html: inout HTMLWriter) {
        let shown = page.with("from", nil).with("to", nil)
        html.element("div", [.class("caption")]) { html in
            html.element("h2", [.text(.id, "picture")], text: "Timeline")
            if isPart { html.link("All time", shown.with("span", "all")) }
            if self != .latest { html.link("Latest", shown.with("span", nil)) }
        }
    }
}
