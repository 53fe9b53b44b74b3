#include "cli/commands/failure.hpp"

#include <new>
#include <nlohmann/json.hpp>

#include "baton/error.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

/// Line breaks and what indents the next line become one space.
std::string on_one_line(const std::string& text) {
  std::string flat;
  bool is_breaking = false;
  for (const char c : printable(text)) {
    if (c == '\n' || (is_breaking && (c == ' ' || c == '\t'))) {
      is_breaking = true;
      continue;
    }
    if (is_breaking && !flat.empty()) flat += ' ';
    is_breaking = false;
    flat += c;
  }
  return flat;
}

failure made(exit_code code, const char* kind, const std::string& text) {
  return {code, kind, on_one_line(text)};
}

}  // namespace

failure describe_failure(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const invalid_argument& e) {
    return made(exit_code::bad_input, "invalid_argument", e.what());
  } catch (const bad_file& e) {
    return made(exit_code::bad_input, "bad_file", e.what());
  } catch (const device_error& e) {
    return made(exit_code::bad_input, "device_error", e.what());
  } catch (const stuck& e) {
    return made(exit_code::peer_lost, "stuck", e.what());
  } catch (const transport_error& e) {
    return made(exit_code::peer_lost, "transport_error", e.what());
  } catch (const unsupported& e) {
    return made(exit_code::no_device, "unsupported", e.what());
  } catch (const cuda_error& e) {
    return made(exit_code::no_device, "cuda_error", e.what());
  } catch (const out_of_memory& e) {
    return made(exit_code::out_of_memory, "out_of_memory", e.what());
  } catch (const std::bad_alloc&) {
    return made(
        exit_code::out_of_memory, "out_of_memory",
        "the host's memory is used up; ask for less at a time, or raise the limit there is (ulimit -v)");
  } catch (const error& e) {
    return made(exit_code::internal, "error", e.what());
  } catch (const std::exception& e) {
    return made(exit_code::internal, "internal", std::string{"unexpected: "} + e.what());
  } catch (...) {
    return made(exit_code::internal, "internal",
                "unexpected: something that is not a std::exception was thrown");
  }
}

int report_failure(const failure& what, bool json, std::ostream& out, std::ostream& err) {
  err << "baton: error: " << what.message << std::endl;
  if (json) {
    const nlohmann::json object{
        {"error",
         {{"kind", what.kind}, {"message", what.message}, {"exit_code", static_cast<int>(what.code)}}}};
    out << object.dump(2) << std::endl;
  }
  return static_cast<int>(what.code);
}

}  // namespace baton::cli
