import Foundation
import TestSupport
import Testing

@Suite("compare-access says who would gain and who would lose")
struct CompareAccessTests {
    private func run(
        _ text: String, _ more: [String] = []
    ) async throws -> (status: Int32, output: String, error: String) {
        let database = try await SharedDatabase.make()
        return try ServerProcess.run(
            ["compare-access", "-"] + more, environment: database.environment(), input: Data(text.utf8))
    }

    @Test("customers whom the log does not know lose what the file says, and the counts name the reason")
    func unknown() async throws {
        let text = """
            customerId,entitlement,active,until
            u-1,plus,true,2026-12-01T00:00:00Z
            u-1,pro,false,
            u-2,no such entitlement,true,never

            """

        let result = try await run(text, ["--at", "2026-11-27T00:00:00Z"])

        let lines = result.output.split(separator: "\n")
        #expect(result.status == 1, "\(result.error)")
        #expect(lines.count == 3)
        #expect(
            lines[0]
                == #"{"customerId":"u-1","entitlement":"plus","difference":"loses","there":{"active":true,"until":"2026-12-01T00:00:00.000Z"},"here":{"active":false},"reason":"unknown_customer","explanation":"No purchase of this customer is known."}"#
        )
        #expect(
            lines[2]
                == #"{"at":"2026-11-27T00:00:00.000Z","customers":2,"compared":3,"same":1,"gains":0,"loses":2,"later":0,"earlier":0,"reasons":[{"reason":"loses unknown_customer","count":2}]}"#
        )
    }

    @Test(
        "a file that cannot be compared is refused",
        arguments: [
            ("customerId,entitlement\nu-1,plus\n", "missing column \"active\""),
            ("customerId,entitlement,active\nu-1,plus,yes\n", "active must be true or false"),
            ("customerId,entitlement,active\nu-1,plus\n", "2 fields: expected 3"),
            ("customerId,entitlement,active,until\nu-1,plus,true,tomorrow\n", "until must be an ISO 8601 instant"),
            (
                "customerId,entitlement,active\nu-1,plus,true\nu-2,plus,true\nu-1,pro,true\n",
                "the rows of a customer must follow each other"
            ),
            ("{\"customerId\":\"u-1\",\"active\":true}\n", "entitlement is missing"),
        ])
    func refused(text: String, problem: String) async throws {
        let result = try await run(text)

        #expect(result.status == 65 && result.error.contains(problem), "\(result.error)")
    }
}
