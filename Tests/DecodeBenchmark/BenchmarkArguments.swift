import TestSupport

/// The command-line arguments of the benchmark.
struct BenchmarkArguments {
    enum Subject: String, CaseIterable {
        case ours, foundation
    }

    private(set) var sizes = BodySize.allCases
    private(set) var iterations = 2000
    private(set) var subjects = Subject.allCases

    /// Nil if the arguments are invalid.
    init?(_ arguments: [String]) {
        guard arguments.count.isMultiple(of: 2) else { return nil }
        for index in stride(from: 0, to: arguments.count, by: 2) {
            let value = arguments[index + 1]
            switch arguments[index] {
            case "--size" where value == "all": sizes = BodySize.allCases
            case "--size":
                guard let size = Int(value).flatMap(BodySize.init) else { return nil }
                sizes = [size]
            case "--iterations":
                guard let count = Int(value), count > 0 else { return nil }
                iterations = count
            case "--only":
                guard let subject = Subject(rawValue: value) else { return nil }
                subjects = [subject]
            default: return nil
            }
        }
    }
}
