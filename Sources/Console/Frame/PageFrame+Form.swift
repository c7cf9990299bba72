extension PageFrame {
    /// Writes a form that is posted, about the chosen stream.
    ///
    /// - Parameter hasFile: Whether a field of it is a file.
    func form(
        _ action: Address, hasFile: Bool = false, to html: inout HTMLWriter, fields: (inout HTMLWriter) -> Void
    ) {
        let type: [Attribute] = hasFile ? [.text(.enctype, "multipart/form-data")] : []
        html.element("form", [.text(.method, "post"), .action(action), .class("filters")] + type) { html in
            html.hidden("csrf", csrf)
            if let stream { html.hidden("stream", stream.text) }
            fields(&html)
        }
    }
}
