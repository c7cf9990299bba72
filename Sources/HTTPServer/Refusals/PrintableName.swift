extension String {
    /// Returns at most this many characters, with anything but printable ASCII escaped as `\u{…}`. For names that an
    /// unauthenticated sender chose.
    func printable(_ charactersMax: Int) -> String {
        var result = ""
        var count = 0
        for scalar in unicodeScalars {
            guard count < charactersMax else { return result + "…" }
            count += 1
            switch scalar {
            case "\\": result += "\\\\"
            case " "..."~": result.unicodeScalars.append(scalar)
            default: result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }
}
