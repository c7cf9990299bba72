extension PageFrame {
    /// Writes a form that changes something in the chosen stream.
    func form(_ action: Address, to html: inout HTMLWriter, fields: (inout HTMLWriter) -> Void) {
        html.element("form", [.text(.method, "post"), .action(action), .class("filters")]) { html in
            html.hidden("csrf", csrf)
            if let stream { html.hidden("stream", stream.text) }
            fields(&html)
        }
    }
}
