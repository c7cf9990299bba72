/// A row of bars without an axis.
struct Sparkline {
    let values: [Int64]

    private static let height = 48.0
    private static let width = 1000.0

    func write(_ name: String, to html: inout HTMLWriter) {
        let most = Double(max(values.max() ?? 0, 1))
        let step = Self.width / Double(max(values.count, 1))
        let attributes: [Attribute] = [
            .text(.viewBox, "0 0 \(Int(Self.width)) \(Int(Self.height))"), .text(.role, "img"), .text(.label, name),
            .text(.xmlns, "http://www.w3.org/2000/svg"), .text(.aspect, "none"), .class("sparkline"),
        ]
        html.element("svg", attributes) { html in
            html.element("path", [.text(.d, "M0 \(Int(Self.height))h\(Int(Self.width))"), .class("axis")]) { _ in }
            for (index, value) in values.enumerated() where value > 0 {
                let height = max(Double(value) / most * (Self.height - 4), 2)
                html.element(
                    "rect",
                    [
                        .number(.x, Double(index) * step), .number(.y, Self.height - height),
                        .number(.width, max(step - 0.5, 1)), .number(.height, height), .class("spark"),
                    ]
                ) { _ in }
            }
        }
        html.element("p", [.class("muted")], text: name)
    }
}
