/// The axes of a chart: a scale of values from zero, and places from left to right.
struct ChartFrame {
    let most: Double
    let places: Int

    static let width = 1000.0
    static let height = 280.0
    static let left = 64.0
    static let right = 12.0
    static let top = 10.0
    static let bottom = 28.0

    init(most: Double, places: Int) {
        self.most = Self.round(max(most, 1))
        self.places = max(places, 1)
    }

    /// The next of 1, 2, 5, 10, 20, 50… that is not smaller.
    private static func round(_ value: Double) -> Double {
        var unit = 1.0
        while unit * 10 < value { unit *= 10 }
        for step in [1.0, 2, 3, 4, 5, 6, 8, 10] where unit * step >= value { return unit * step }
        return value
    }

    /// Into how many equal parts the scale is divided, so that lines have round values.
    private var parts: Int {
        var leading = most
        while leading >= 10 { leading /= 10 }
        switch leading {
        case 3, 6: return 3
        case 5: return 5
        case 1 where most < 10: return 1
        case 2 where most < 10: return 2
        default: return 4
        }
    }

    var step: Double { (Self.width - Self.left - Self.right) / Double(places) }
    func x(_ place: Int) -> Double { Self.left + (Double(place) + 0.5) * step }
    func y(_ value: Double) -> Double {
        Self.height - Self.bottom - value / most * (Self.height - Self.top - Self.bottom)
    }

    /// Writes the drawing with its axes.
    ///
    /// - Parameters:
    ///   - labels: The names of the places, of which as many are written as fit.
    ///   - lowest: The lowest value, negative if bars go down.
    func write(
        _ name: String, labels: [String], to html: inout HTMLWriter, _ content: (inout HTMLWriter) -> Void
    ) {
        let attributes: [Attribute] = [
            .text(.viewBox, "0 0 \(Int(Self.width)) \(Int(Self.height))"), .text(.role, "group"), .text(.label, name),
            .text(.xmlns, "http://www.w3.org/2000/svg"),
        ]
        html.element("div", [.class("draw")]) { html in
            html.element("svg", attributes) { html in
                html.element("desc", text: "The table below holds the same numbers.")
                let parts = parts
                for part in 0...parts {
                    let value = most * Double(part) / Double(parts)
                    let path =
                        "M\(Timeline.text(Self.left)) \(Timeline.text(y(value)))H\(Timeline.text(Self.width - Self.right))"
                    html.element("path", [.text(.d, path), .class("axis")]) { _ in }
                    html.element(
                        "text",
                        [
                            .number(.x, Self.left - 6), .number(.y, y(value) + 4), .text(.anchor, "end"),
                            .class("small"),
                        ],
                        text: Self.text(value))
                }
                let every = max(1, (labels.count + 8) / 9)
                for (place, label) in labels.enumerated() where place % every == 0 {
                    html.element(
                        "text",
                        [
                            .number(.x, min(max(x(place), Self.left + 20), Self.width - 40)),
                            .number(.y, Self.height - 8),
                            .text(.anchor, "middle"), .class("small"),
                        ], text: label)
                }
                content(&html)
            }
        }
    }

    static func text(_ value: Double) -> String {
        value == value.rounded() ? Int64(value).grouped : "\((value * 100).rounded() / 100)"
    }

    static func legend(_ names: [(String, String)], to html: inout HTMLWriter) {
        html.element("ul", [.class("legend")]) { html in
            for (name, kind) in names {
                html.element("li") { html in
                    html.element("svg", [.text(.viewBox, "0 0 24 12"), .text(.role, "presentation")]) { html in
                        if kind.hasPrefix("b") {
                            html.element(
                                "rect", [.number(.width, 24), .number(.height, 12), .class("bar \(kind)")]
                            ) { _ in }
                        } else {
                            html.element("path", [.text(.d, "M0 6H24"), .class("series \(kind)")]) { _ in }
                        }
                    }
                    html.text(name)
                }
            }
        }
    }
}
