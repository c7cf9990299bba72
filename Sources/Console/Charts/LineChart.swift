/// Lines over the same places, each point a link.
struct LineChart {
    struct Series {
        let name: String
        let values: [Double?]
    }

    let name: String
    let places: [String]
    let series: [Series]
    /// The address of a point.
    let address: (_ place: Int) -> Address

    /// More points than these are too narrow for a thumb; every n-th has a mark, the line goes through all.
    private static let marksMax = 62

    func write(to html: inout HTMLWriter) {
        let chart = ChartFrame(most: series.flatMap(\.values).compactMap(\.self).max() ?? 0, places: places.count)
        ChartFrame.legend(series.enumerated().map { ($1.name, "s\($0 % 4)") }, to: &html)
        chart.write(name, labels: places, to: &html) { html in
            for (index, each) in series.enumerated() {
                var path = ""
                for (place, value) in each.values.enumerated() {
                    guard let value else { continue }
                    path +=
                        "\(path.isEmpty ? "M" : "L")\(Timeline.text(chart.x(place))) \(Timeline.text(chart.y(value)))"
                }
                html.element("path", [.text(.d, path), .class("series s\(index % 4)")]) { _ in }
            }
            let every = max(1, (places.count + Self.marksMax - 1) / Self.marksMax)
            // One link a place, with the values of all lines: a link a point would triple the stops of the keyboard.
            for (place, label) in places.enumerated()
            where place % every == 0 || place == places.count - 1 {
                let values = series.compactMap { each in
                    each.values[place].map { "\(each.name) \(ChartFrame.text($0))" }
                }
                guard !values.isEmpty else { continue }
                let words = "\(label): \(values.joined(separator: ", "))"
                html.element("a", [.href(address(place)), .text(.label, words)]) { html in
                    html.element("title", text: words)
                    for (index, each) in series.enumerated() {
                        // Lines at zero would hide each other's marks.
                        guard let value = each.values[place], value > 0 || index == 0 else { continue }
                        html.element(
                            "circle",
                            [
                                .number(.cx, chart.x(place)), .number(.cy, chart.y(value)), .number(.r, 4),
                                .class("dot s\(index % 4)"),
                            ]
                        ) { _ in }
                    }
                }
            }
        }
    }
}
